"""How much more the engine should get."""

from typing import Any

import pytest

from gpu_consumer.backlog import Job
from gpu_consumer.engine.protocol import Pulse
from gpu_consumer.running.inside import Flight, Inside
from gpu_consumer.scheduling.expected import Expected
from gpu_consumer.scheduling.scheduler import Room, Unit
from tests.unit.gpu_consumer.work import FakeIndex, job_of, work_item

MANY = 1000


def inside(expected: Expected | None = None, **settings: Any) -> Inside:
    values: dict[str, Any] = {"ahead_slots": 0, "claim_seconds": 0.1, "ahead_batches_max": 4}
    return Inside(expected or Expected(), **(values | settings))


def flights(count: int, job: Job | None = None, **changes: Any) -> list[Flight]:
    job = job or job_of(work_item("a", images=count), FakeIndex())
    kind = changes.pop("kind", "red")
    values: dict[str, Any] = {
        "tenant": "blue", "lane": "standard", "config_hash": kind, "kind": kind, "model": "m", "bucket": 8,
        "joins": True, "deadline": 1000.0, "seconds": 1.0,
    }  # fmt: skip
    return [Flight(Unit(job.id, n, **(values | changes)), job) for n in range(count)]


def filled(made: Inside, count: int, **changes: Any) -> list[Flight]:
    added = flights(count, **changes)
    for flight in added:
        made.add(flight)
    return added


def test_an_empty_engine_takes_anything() -> None:
    made = inside()
    made.pulse = Pulse("nothing", models=("m",))
    assert made.room(MANY) == Room(models=("m",), limit=MANY)
    assert made.room(0) is None
    assert made.room_after(MANY) is None


def test_a_bucket_and_a_quarter_of_it_are_sent() -> None:
    made = inside()
    first, *_ = filled(made, 7)
    room = made.room(MANY)
    assert room is not None
    assert (room.kind, room.slots, room.idle) == ("red", 3, False)
    made.drawn(first)
    again = made.room(MANY)
    assert again is not None
    assert again.slots == 4, "what is drawn has no slot any more"


def test_ahead_is_a_setting() -> None:
    made = inside(ahead_slots=5)
    filled(made, 8)
    room = made.room(MANY)
    assert room is not None
    assert room.slots == 5


def test_the_engine_may_have_fewer_slots_than_the_bucket() -> None:
    made = inside()
    filled(made, 4)
    made.pulse = Pulse("step", "red", slots=2, fill=2)
    assert made.room(MANY) is None
    made.pulse = Pulse("step", "green", slots=2, fill=2)
    assert made.room(MANY) is not None, "those are of another kind"


def test_quick_pictures_are_sent_for_as_long_as_a_claim_takes() -> None:
    expected = Expected()
    made = inside(expected)
    filled(made, 8)
    expected.learn("red", 0.01)
    room = made.room(MANY)
    assert room is not None
    assert room.slots == 10, "0.1 s of 0.01 s each"
    for _ in range(50):
        expected.learn("red", 0.0)
    room = made.room(MANY)
    assert room is not None
    assert room.slots == 4 * 8, "however quick"


def test_the_next_kind_is_claimed_when_the_last_of_this_one_runs() -> None:
    made = inside()
    first, *_ = filled(made, 3)
    assert made.room_after(MANY) is None
    made.drawn(first)
    room = made.room_after(MANY)
    assert room is not None
    assert (room.kind, room.idle) == (None, False)


@pytest.mark.parametrize(("seconds", "more"), [(0.04, False), (0.02, True)])
def test_what_runs_whole_is_waited_for_unless_it_is_quick(seconds: float, more: bool) -> None:
    made = inside()
    filled(made, 4, joins=False, seconds=seconds)
    assert (made.room(MANY) is not None) is more
    assert made.room_after(MANY) is None


def test_an_engine_with_the_slots_of_two_batches_is_given_two_that_run_whole() -> None:
    made = inside()
    filled(made, 3, joins=False)
    made.pulse = Pulse("step", "red", slots=8, fill=3)
    assert made.room(MANY) is None
    made.pulse = Pulse("step", "red", slots=16, fill=3)
    room = made.room(MANY)
    assert room is not None
    assert (room.kind, room.idle) == (None, False)
    filled(made, 8, joins=False, job=job_of(work_item("b", images=8), FakeIndex()))
    assert made.room(MANY) is None


def test_nobody_joins_one_that_must_be_alone_not_even_while_it_is_encoded() -> None:
    made = inside()
    (alone,) = filled(made, 1, alone=True)
    assert made.room(MANY) is None
    assert made.room_after(MANY) is None
    made.drawn(alone)
    assert made.room(MANY) is None
    made.remove(alone)
    assert made.room(MANY) is not None


def test_deadlines_are_told_once_a_job_and_leave_no_trace() -> None:
    made = inside()
    job = job_of(work_item("late", images=2), FakeIndex())
    filled(made, 2, job=job, deadline=5.0)
    assert made.next_deadline() == 5.0
    assert made.late(4.9) == []
    assert made.late(5.0) == [job]
    assert made.late(6.0) == []
    for n in range(1000):
        (flight,) = filled(made, 1, job=job_of(work_item(f"j{n}"), FakeIndex()))
        made.remove(flight)
    assert len(made._deadlines) < 80


def test_what_is_expected_adds_up() -> None:
    made = inside()
    first, second = filled(made, 2, seconds=0.3)
    assert made.seconds == pytest.approx(0.6)
    made.drawn(first)
    made.remove(first)
    assert made.seconds == pytest.approx(0.3)
    assert made.clear() == [second]
    assert made.seconds == 0.0


def test_what_is_left_is_told_of_those_that_share_the_device_and_of_those_that_wait() -> None:
    made = inside()
    assert made.left(0.0) == 0.0
    first, second, _ = filled(made, 3, seconds=40.0)
    assert made.left(0.0) == 120.0
    first.joined_at, second.joined_at = 100.0, 110.0
    assert made.left(120.0) == (40 - 20 / 2) + (40 - 10 / 2) + 40
    assert made.left(10_000.0) == 4 + 4 + 40, "a guess that was wrong leaves something"
    made.drawn(first)
    assert made.left(120.0) == (40 - 10) + 40
