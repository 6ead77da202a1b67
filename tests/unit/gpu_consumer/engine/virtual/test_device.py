"""The table of the virtual device, and the clock that keeps its time."""

import pytest

from gpu_consumer.engine.virtual.clock import SLACK_SECONDS, VirtualClock
from gpu_consumer.engine.virtual.device import H200_STEPS, VirtualDevice


@pytest.mark.parametrize(("batch", "seconds"), [*H200_STEPS, (6, 0.3325), (12, 0.6285), (24, 1.239)])
def test_a_step_is_linear_between_the_entries_and_beyond_the_last(batch: int, seconds: float) -> None:
    assert VirtualDevice().step_seconds(batch) == pytest.approx(seconds)


def test_the_full_batch_limit_counts_every_stage() -> None:
    device = VirtualDevice(steps=((1, 1.0), (4, 2.0)), text=(0.5, 0.25), decode=(0.0, 0.125))
    assert device.full_batch_seconds(4, 10.0) == pytest.approx((10 * 2 + 0.5 + 1 + 0.5) / 4)


def test_work_given_within_the_slack_follows_the_last_without_a_gap() -> None:
    clock = VirtualClock(0.5)
    assert clock.begin(2.0, 100.0) == 101.0
    clock.woke(101.0 + SLACK_SECONDS / 2)
    assert clock.begin(2.0, 101.0 + SLACK_SECONDS / 2) == 102.0
    assert clock.lost_seconds == 0
    assert list(clock.late) == [pytest.approx(SLACK_SECONDS / 2)]


def test_work_given_later_starts_then_and_the_gap_is_counted() -> None:
    clock = VirtualClock(0.5)
    clock.begin(2.0, 100.0)
    assert clock.begin(2.0, 103.0) == 104.0
    assert clock.lost_seconds == pytest.approx(2.0)
    assert clock.busy_seconds == pytest.approx(2.0)
