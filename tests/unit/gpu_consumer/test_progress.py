"""Liveness is progress."""

# case AIO-04

import pytest

from gpu_consumer.progress import ProgressWatch


def test_lag_without_movement_is_not_alive_after_a_while() -> None:
    watch = ProgressWatch(10.0, now=0.0)
    assert watch.look(1.0, "a", undone="5 records wait", busy=False, waiting_for=None) is None
    assert watch.look(10.9, "a", undone="5 records wait", busy=False, waiting_for=None) is None
    assert watch.stalled_seconds == pytest.approx(9.9)
    assert "5 records wait" in (watch.look(11.0, "a", undone="5 records wait", busy=False, waiting_for=None) or "")


def test_work_movement_and_named_waits_are_life() -> None:
    watch = ProgressWatch(10.0, now=0.0)
    assert watch.look(50.0, "a", undone="5 records wait", busy=True, waiting_for=None) is None
    assert watch.look(100.0, "a", undone="5 records wait", busy=False, waiting_for="the store") is None
    assert watch.look(150.0, "b", undone="5 records wait", busy=False, waiting_for=None) is None
    assert watch.look(200.0, "b", undone=None, busy=False, waiting_for=None) is None
    assert watch.stalled_seconds == 0
    assert watch.look(209.0, "b", undone="5 records wait", busy=False, waiting_for=None) is None
    assert watch.look(210.0, "b", undone="5 records wait", busy=False, waiting_for=None) is not None
