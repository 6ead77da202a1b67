"""What operators paused, and what they dropped."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from admission.decide import decide
from schemas.control import Pause, Subject
from schemas.result import Cancelled
from schemas.stops import Dropped
from tests.unit.admission.scene import (
    NOW_MS,
    Partition,
    accepted,
    arrival,
    decided,
    fresh_state,
    make_world,
    rejected,
    request,
)

ALICE, SKETCH, VERSION, POOL = (
    Subject("tenant", "alice"),
    Subject("config", "sketch"),
    Subject("config", "sketch@1"),
    Subject("pool", "default"),
)
LATER_MS = NOW_MS + 90_000


def partition(
    paused: Mapping[Subject, Pause] | None = None, dropped: Mapping[Subject, Dropped] | None = None
) -> Partition:
    return Partition(replace(make_world(), paused=paused or {}, dropped=dropped or {}))


def until(at_ms: int, reason: str = "") -> Pause:
    return Pause(until=datetime.fromtimestamp(at_ms / 1000, UTC), reason=reason)


@pytest.mark.parametrize("subject", [ALICE, SKETCH, VERSION, POOL], ids=str)
def test_a_pause_refuses_what_is_new(subject: Subject) -> None:
    result = rejected(partition({subject: Pause(reason="a driver is changed")}).send(request()))
    assert (result.code, result.retry_after_seconds) == ("paused", None)
    assert result.message == (
        f"{subject.kind} {subject.name!r} is paused; send this again under a new request id once it is resumed. "
        "Reason: a driver is changed"
    )


def test_a_pause_that_ends_says_when() -> None:
    result = rejected(partition({POOL: until(LATER_MS)}).send(request()))
    assert result.retry_after_seconds == 90.0
    assert result.message == "pool 'default' is paused; send this again under a new request id in 90 s"


def test_a_pause_that_is_over_is_none() -> None:
    assert accepted(partition({POOL: until(NOW_MS)}).send(request()))


def test_what_is_refused_costs_nothing() -> None:
    paused = partition({POOL: Pause()})
    bucket = decided(paused.send(request("a"))).bucket_after
    assert decided(paused.send(request("b"))).bucket_after == bucket == 5.0


@pytest.mark.parametrize(
    "other", [Subject("tenant", "ivan"), Subject("config", "huge"), Subject("config", "sketch@2")], ids=str
)
def test_another_ones_stop_is_none(other: Subject) -> None:
    assert accepted(partition({other: Pause()}, {other: Dropped(LATER_MS)}).send(request()))


@pytest.mark.parametrize("subject", [ALICE, SKETCH, VERSION, POOL], ids=str)
def test_a_drop_ends_what_came_before_it(subject: Subject) -> None:
    there = partition(dropped={subject: Dropped(NOW_MS + 5, "it draws badly")})
    verdict = there.send(request("before"))
    assert decided(verdict).verdict == "cancelled"
    result: Any = verdict
    assert isinstance(result.result, Cancelled)
    named = f"{subject.kind} {subject.name!r}"
    assert result.result.message == f"cancelled before it was admitted: {named} was dropped (it draws badly)"
    assert decided(there.send(request("at that moment"), at_ms=NOW_MS + 5)).verdict == "cancelled"
    assert accepted(there.send(request("later"), at_ms=NOW_MS + 6))


def test_a_dropped_request_ends_as_its_sender_named_it() -> None:
    there = partition(dropped={POOL: Dropped(NOW_MS)})
    verdict: Any = there.send(request(key="web", retry_of="r0", metadata={"order": "7"}))
    assert (verdict.result.retry_of, verdict.result.metadata) == ("r0", {"order": "7"})
    assert verdict.decision.key == "web"


def test_a_decision_that_is_logged_stands() -> None:
    there = partition()
    job = accepted(there.decide(arrival(request(), 0))).job_id
    there.log()  # and then this owner was killed: the work is not produced yet
    there.world = replace(there.world, dropped={ALICE: Dropped(LATER_MS)}, paused={ALICE: Pause()})
    _, produced = there.take_over()
    assert [each.job_id for each in produced] == [job]
    again: Any = there.send(request())
    assert again.job_id == job, "a repeat"


def test_a_drop_comes_before_a_pause_of_the_same() -> None:
    there = partition({POOL: Pause()}, {POOL: Dropped(NOW_MS)})
    assert decided(there.send(request())).verdict == "cancelled"
    assert rejected(there.send(request("later"), at_ms=NOW_MS + 1)).code == "paused"


def test_a_pause_goes_by_the_wall_clock_and_not_by_when_it_was_sent() -> None:
    world = replace(make_world(), paused={POOL: until(LATER_MS)})
    waited = arrival(request(), 0, at_ms=NOW_MS)
    assert rejected(decide(waited, fresh_state(), world, LATER_MS - 1)).code == "paused"
    assert accepted(decide(waited, fresh_state(), world, LATER_MS))


def test_what_was_taken_back_is_not_judged_any_more() -> None:
    there = partition(dropped={ALICE: Dropped(NOW_MS)})
    assert decided(there.send(request(seed=-1))).verdict == "cancelled"
