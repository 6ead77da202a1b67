"""When a batch goes, and with whom."""

from typing import Any

from gpu_consumer.scheduler import Scheduler, Unit


def unit(job: str, n: int = 0, **changes: Any) -> Unit:
    values: dict[str, Any] = {"lane": "standard", "config_hash": "red", "bucket": 4, "deadline": 1000.0}
    return Unit(job, n, **(values | changes))


def jobs(scheduler: Scheduler, now: float) -> list[str] | None:
    chosen = scheduler.take(now)
    return None if chosen is None else [each.job for each in chosen.units]


def test_a_full_batch_goes_at_once() -> None:
    scheduler = Scheduler(batch_wait_seconds=2.0)
    for n in range(5):
        scheduler.add(unit(f"j{n}"), now=10.0)
    assert jobs(scheduler, 10.0) == ["j0", "j1", "j2", "j3"]
    assert jobs(scheduler, 10.0) is None


def test_the_wait_counts_from_the_first_picture_not_the_last() -> None:
    scheduler = Scheduler(batch_wait_seconds=2.0)
    scheduler.add(unit("a"), now=10.0)
    scheduler.add(unit("b"), now=11.9)
    assert jobs(scheduler, 11.99) is None
    assert scheduler.next_batch(11.99) == 12.0
    chosen = scheduler.take(12.0)
    assert chosen is not None
    assert [each.job for each in chosen.units] == ["a", "b"]
    assert chosen.waited_seconds == 2.0


def test_configs_never_share_a_batch() -> None:
    scheduler = Scheduler(batch_wait_seconds=0.0)
    scheduler.add(unit("a", config_hash="red"), 0.0)
    scheduler.add(unit("b", config_hash="blue"), 0.0)
    assert [jobs(scheduler, 1.0), jobs(scheduler, 1.0), jobs(scheduler, 1.0)] == [["a"], ["b"], None]


def test_an_urgent_lane_goes_first_and_then_age() -> None:
    scheduler = Scheduler(batch_wait_seconds=0.0)
    scheduler.add(unit("bulk", lane="bulk", config_hash="blue"), 0.0)
    scheduler.add(unit("standard", bucket=2), 1.0)
    scheduler.add(unit("old-bulk", lane="bulk", bucket=2), 0.5)
    scheduler.add(unit("urgent", lane="interactive", bucket=2), 2.0)
    assert jobs(scheduler, 3.0) == ["urgent", "standard"]
    assert jobs(scheduler, 3.0) == ["bulk"]
    assert jobs(scheduler, 3.0) == ["old-bulk"]


def test_the_pictures_of_a_job_are_units() -> None:
    scheduler = Scheduler(batch_wait_seconds=1.0)
    for n in range(6):
        scheduler.add(unit("a", n), 0.0)
    first = scheduler.take(0.0)
    assert first is not None
    assert [each.n for each in first.units] == [0, 1, 2, 3]
    assert scheduler.discard("a") == 2
    scheduler.check_integrity()
    assert scheduler.next_batch(0.0) is None
    assert scheduler.next_deadline() is None


def test_what_killed_an_engine_runs_alone_and_at_once() -> None:
    scheduler = Scheduler(batch_wait_seconds=5.0)
    scheduler.add(unit("suspect", alone=True), 0.0)
    scheduler.add(unit("innocent"), 0.0)
    assert jobs(scheduler, 0.0) == ["suspect"]
    assert jobs(scheduler, 0.0) is None


def test_an_expired_job_leaves_before_it_runs() -> None:
    scheduler = Scheduler(batch_wait_seconds=60.0)
    scheduler.add(unit("late", deadline=5.0), 0.0)
    scheduler.add(unit("late", 1, deadline=5.0), 0.0)
    scheduler.add(unit("fine"), 0.0)
    assert scheduler.next_deadline() == 5.0
    assert scheduler.expired(4.9) == []
    assert scheduler.expired(5.0) == ["late"]
    assert jobs(scheduler, 60.0) == ["fine"]
    scheduler.check_integrity()


def test_a_held_job_expires_too_and_lets_others_pass() -> None:
    scheduler = Scheduler(batch_wait_seconds=0.0)
    scheduler.add(unit("odd"), 0.0)
    scheduler.hold("odd", deadline=5.0)
    scheduler.add(unit("fine"), 0.0)
    assert jobs(scheduler, 0.0) == ["fine"]
    assert scheduler.next_deadline() == 5.0
    assert scheduler.expired(5.0) == ["odd"]
    scheduler.check_integrity()


def test_a_held_job_that_is_added_runs() -> None:
    scheduler = Scheduler(batch_wait_seconds=0.0)
    scheduler.hold("a", deadline=5.0)
    scheduler.add(unit("a", deadline=5.0), 1.0)
    assert jobs(scheduler, 1.0) == ["a"]
    assert scheduler.expired(6.0) == []
    scheduler.check_integrity()


def test_jobs_that_end_long_before_their_deadline_leave_no_trace() -> None:
    scheduler = Scheduler(batch_wait_seconds=0.0)
    for n in range(10_000):
        scheduler.add(unit(f"j{n}", bucket=1, deadline=1e9 + n), 0.0)
        assert scheduler.take(0.0) is not None
    scheduler.next_deadline()
    assert len(scheduler._deadlines) <= 64
