"""Who goes next, with whom, and who may pass whom for how long."""

from typing import Any

import pytest

from gpu_consumer.scheduling import fairness
from gpu_consumer.scheduling.expected import Expected
from gpu_consumer.scheduling.scheduler import Chosen, Room, Scheduler, Unit
from schemas.request import Lane

IDLE = Room()


def unit(job: str, n: int = 0, **changes: Any) -> Unit:
    kind = changes.pop("kind", "red")
    values: dict[str, Any] = {
        "tenant": "blue", "lane": "standard", "config_hash": kind, "kind": kind, "model": f"model of {kind}",
        "bucket": 4, "joins": True, "deadline": 1000.0, "seconds": 1.0,
    }  # fmt: skip
    return Unit(job, n, **(values | changes))


def whole(job: str, n: int = 0, **changes: Any) -> Unit:
    return unit(job, n, joins=False, **changes)


def names(chosen: Chosen | None) -> list[str] | None:
    return None if chosen is None else [each.job for each in chosen.units]


def jobs(scheduler: Scheduler, now: float, room: Room = IDLE) -> list[str] | None:
    return names(scheduler.take(now, room))


def running(kind: str, slots: int) -> Room:
    return Room(kind, slots, models=(f"model of {kind}",), idle=False)


# With whom, and when.


def test_what_joins_at_any_step_waits_for_nobody() -> None:
    scheduler = Scheduler(batch_wait_seconds=2.0)
    scheduler.add(unit("a"), now=10.0)
    assert scheduler.next_batch(10.0) == 10.0
    assert jobs(scheduler, 10.0) == ["a"]


def test_a_free_slot_is_filled_with_what_runs() -> None:
    scheduler = Scheduler(0.0)
    for n in range(5):
        scheduler.add(unit(f"j{n}"), 0.0)
    assert jobs(scheduler, 0.0) == ["j0", "j1", "j2", "j3"]
    assert jobs(scheduler, 0.0, running("red", 0)) is None
    assert jobs(scheduler, 0.0, running("red", 2)) == ["j4"]


def test_configurations_of_one_kind_share_a_batch_and_kinds_never_do() -> None:
    scheduler = Scheduler(0.0, affinity_wait_seconds=60.0)
    scheduler.add(unit("a", config_hash="4 steps"), 0.0)
    scheduler.add(unit("b", config_hash="8 steps"), 0.0)
    scheduler.add(unit("c", kind="green"), 0.0)
    assert jobs(scheduler, 0.0) == ["a", "b"]
    assert jobs(scheduler, 0.0, running("red", 2)) is None
    assert jobs(scheduler, 0.0) == ["c"]


def test_what_runs_whole_goes_when_its_batch_is_full() -> None:
    scheduler = Scheduler(batch_wait_seconds=2.0)
    for n in range(5):
        scheduler.add(whole(f"j{n}"), now=10.0)
    assert jobs(scheduler, 10.0) == ["j0", "j1", "j2", "j3"]
    assert jobs(scheduler, 10.0) is None
    assert scheduler.next_batch(10.0) == 12.0


def test_the_wait_counts_from_the_first_picture_not_the_last() -> None:
    scheduler = Scheduler(batch_wait_seconds=2.0)
    scheduler.add(whole("a"), now=10.0)
    scheduler.add(whole("b"), now=11.9)
    assert jobs(scheduler, 11.99) is None
    assert scheduler.next_batch(11.99) == 12.0
    chosen = scheduler.take(12.0, IDLE)
    assert names(chosen) == ["a", "b"]
    assert chosen is not None
    assert chosen.waited_seconds == 2.0


def test_the_wait_counts_anew_when_the_first_picture_has_left() -> None:
    scheduler = Scheduler(batch_wait_seconds=2.0)
    scheduler.add(whole("a"), now=10.0)
    scheduler.add(whole("b"), now=11.0)
    scheduler.discard("a")
    assert scheduler.next_batch(11.0) == 13.0
    assert jobs(scheduler, 12.9) is None
    assert jobs(scheduler, 13.0) == ["b"]


def test_what_waits_for_company_lets_others_pass() -> None:
    scheduler = Scheduler(batch_wait_seconds=60.0)
    scheduler.add(whole("patient", kind="green"), 0.0)
    scheduler.add(unit("ready"), 1.0)
    assert jobs(scheduler, 1.0) == ["ready"]


def test_the_pictures_of_a_job_are_units() -> None:
    scheduler = Scheduler(batch_wait_seconds=1.0)
    for n in range(6):
        scheduler.add(unit("a", n), 0.0)
    first = scheduler.take(0.0, IDLE)
    assert first is not None
    assert [each.n for each in first.units] == [0, 1, 2, 3]
    assert scheduler.discard("a") == 2
    scheduler.check_integrity()
    assert scheduler.next_batch(0.0) is None
    assert scheduler.next_deadline() is None


def test_a_limit_holds_for_a_batch_too() -> None:
    scheduler = Scheduler(0.0)
    for n in range(6):
        scheduler.add(unit("a", n), 0.0)
    chosen = scheduler.take(0.0, Room(limit=3))
    assert chosen is not None
    assert len(chosen.units) == 3


# What killed an engine.


def test_what_killed_an_engine_runs_alone_in_an_idle_engine() -> None:
    scheduler = Scheduler(0.0)
    scheduler.add(unit("suspect", alone=True, deadline=1.0), 0.0)
    scheduler.add(unit("innocent"), 0.0)
    assert jobs(scheduler, 0.0, running("red", 3)) is None, "its turn: nothing more joins"
    assert jobs(scheduler, 0.0, Room(idle=False)) is None
    assert jobs(scheduler, 0.0) == ["suspect"]
    assert jobs(scheduler, 0.0) == ["innocent"]


def test_two_suspects_never_meet() -> None:
    scheduler = Scheduler(0.0)
    for n in range(2):
        scheduler.add(unit("suspect", n, alone=True), 0.0)
    assert jobs(scheduler, 0.0) == ["suspect"]
    assert jobs(scheduler, 0.0) == ["suspect"]


# Turns.


def drain(scheduler: Scheduler, count: int, now: float = 0.0) -> list[Unit]:
    """One at a time, into an idle engine."""
    taken: list[Unit] = []
    for _ in range(count):
        chosen = scheduler.take(now, Room(limit=1))
        assert chosen is not None
        taken += chosen.units
    return taken


def test_lanes_share_by_weight_and_none_starves() -> None:
    scheduler = Scheduler(0.0, lane_weights={"interactive": 4.0, "standard": 2.0, "bulk": 1.0})
    for lane in ("bulk", "standard", "interactive"):
        for n in range(100):
            scheduler.add(unit(f"{lane}{n}", lane=lane), 0.0)
    lanes = [each.lane for each in drain(scheduler, 70)]
    assert lanes[0] == "interactive"
    assert {lane: lanes.count(lane) for lane in sorted(set(lanes))} == {"bulk": 10, "interactive": 40, "standard": 20}


def test_a_lane_that_slept_has_saved_up_nothing() -> None:
    scheduler = Scheduler(0.0, lane_weights={"interactive": 1.0, "standard": 1.0, "bulk": 1.0})
    for n in range(60):
        scheduler.add(unit(f"s{n}"), 0.0)
    drain(scheduler, 40)
    for n in range(20):
        scheduler.add(unit(f"b{n}", lane="bulk"), 0.0)
    lanes = [each.lane for each in drain(scheduler, 10)]
    assert lanes.count("standard") == 5


def test_the_least_served_tenant_goes_first() -> None:
    scheduler = Scheduler(0.0)
    for n in range(8):
        scheduler.add(unit(f"many{n}", tenant="many"), 0.0)
    for n in range(4):
        scheduler.add(unit(f"dear{n}", tenant="dear", seconds=3.0), 1.0)
    tenants = [each.tenant for each in drain(scheduler, 8)]
    assert (tenants.count("dear"), tenants.count("many")) == (2, 6), "GPU-seconds count, not pictures"


def test_what_a_picture_cost_in_truth_counts() -> None:
    scheduler = Scheduler(0.0)
    for n in range(8):
        scheduler.add(unit(f"a{n}", tenant="a"), 0.0)
        scheduler.add(unit(f"b{n}", tenant="b"), 0.0)
    drain(scheduler, 2)
    scheduler.served("a", "standard", 3.0)  # four seconds instead of one
    assert [each.tenant for each in drain(scheduler, 4)] == ["b", "b", "b", "a"]
    scheduler.served("a", "standard", -1.0)  # it cost nothing
    assert [each.tenant for each in drain(scheduler, 3)] == ["b", "a", "a"], "the next is paid for"


def test_a_newcomer_starts_where_the_others_are() -> None:
    scheduler = Scheduler(0.0)
    for n in range(40):
        scheduler.add(unit(f"old{n}", tenant="old"), 0.0)
    drain(scheduler, 20)
    for n in range(20):
        scheduler.add(unit(f"new{n}", tenant="new"), 0.0)
    tenants = [each.tenant for each in drain(scheduler, 10)]
    assert tenants.count("old") == 5, "it has no credit for the time before it came"


def test_one_request_beside_a_flood_is_in_the_next_batch() -> None:
    """Case ADM-04. How a flood through 50 keys and in bursts is borne by all of admission and the scheduler:
    `make bench-fairness`."""
    scheduler = Scheduler(0.0)
    for n in range(10_000):
        scheduler.add(unit(f"flood{n}", tenant="flood"), 0.0)
    drain(scheduler, 100)
    scheduler.add(unit("one", tenant="one"), 1.0)
    assert "one" in [each.job for each in drain(scheduler, 2)]


def test_one_that_comes_and_goes_keeps_what_it_was_given() -> None:
    scheduler = Scheduler(0.0)
    for n in range(20):
        scheduler.add(unit(f"steady{n}", tenant="steady"), 0.0)
    tenants = []
    for n in range(10):  # its queue is empty after each
        scheduler.add(unit(f"drip{n}", tenant="drip"), 0.0)
        tenants += [each.tenant for each in drain(scheduler, 2)]
        scheduler.discard(f"drip{n}")
    assert tenants.count("drip") <= 10


def test_accounts_of_tenants_that_are_gone_are_dropped() -> None:
    scheduler = Scheduler(0.0)
    for n in range(10_000):
        scheduler.add(unit(f"j{n}", tenant=f"t{n}"), 0.0)
        drain(scheduler, 1)
    assert len(scheduler._shares._tenants["standard"]) < 2 * fairness._FORGOTTEN_MAX


def test_within_a_tenant_the_earliest_deadline_goes_first() -> None:
    scheduler = Scheduler(0.0)
    scheduler.add(unit("later", deadline=90.0), 0.0)
    scheduler.add(unit("sooner", deadline=80.0), 1.0)
    scheduler.add(unit("equal", deadline=90.0), 2.0)
    assert [each.job for each in drain(scheduler, 3)] == ["sooner", "later", "equal"]


def test_the_same_calls_choose_the_same() -> None:
    def play() -> list[str]:
        scheduler = Scheduler(0.0)
        for n in range(50):
            scheduler.add(unit(f"j{n}", tenant=f"t{n % 7}", lane=("bulk", "standard")[n % 2]), 0.0)
        return [each.job for each in drain(scheduler, 50)]

    assert play() == play()


# Affinity.


def test_a_loaded_model_is_preferred_for_a_bounded_time() -> None:
    scheduler = Scheduler(0.0, affinity_wait_seconds=10.0)
    scheduler.add(unit("waits", kind="green", deadline=900.0), 0.0)
    for n in range(9):
        scheduler.add(unit(f"j{n}"), 0.0)
    loaded = Room(models=("model of red",))
    assert jobs(scheduler, 5.0, loaded) == ["j0", "j1", "j2", "j3"]
    assert jobs(scheduler, 14.9, running("red", 1)) == ["j4"], "what has just begun may run for so long"
    assert jobs(scheduler, 15.0, running("red", 1)) is None, "then it drains"
    assert jobs(scheduler, 15.0, loaded) == ["waits"]
    assert jobs(scheduler, 16.0, Room(models=("model of red", "model of green"))) == ["j5", "j6", "j7", "j8"]


def test_no_more_than_so_many_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = Scheduler(0.0, affinity_wait_seconds=1e6, look_ahead=3)
    for n in range(9):
        scheduler.add(unit(f"j{n}"), 0.0)
    assert jobs(scheduler, 0.0, Room(limit=1)) == ["j0"]
    scheduler.add(unit("waits", kind="green", tenant="new", deadline=900.0), 0.0)
    scheduler.served("blue", "standard", 10.0)
    assert jobs(scheduler, 0.0, running("red", 2)) == ["j1", "j2"]
    assert jobs(scheduler, 0.0, running("red", 2)) == ["j3", "j4"], "two had passed, and three may"
    assert jobs(scheduler, 0.0, running("red", 2)) is None
    assert jobs(scheduler, 0.0) == ["waits"]


def test_kinds_of_a_loaded_model_do_not_pass_by_turns_for_ever() -> None:
    scheduler = Scheduler(0.0, affinity_wait_seconds=5.0)
    scheduler.add(unit("waits", kind="cold", tenant="new", deadline=900.0), 0.0)
    scheduler.served("blue", "standard", 1e6)
    passed = 0
    for n in range(20):
        scheduler.add(unit(f"j{n}", kind=("red", "green")[n % 2], model="hot"), float(n))
        if jobs(scheduler, float(n), Room(models=("hot",))) == ["waits"]:
            break
        passed += 1
    assert passed == 5


def test_what_passes_does_not_use_up_the_turns_of_its_lane() -> None:
    weights: dict[Lane, float] = {"interactive": 16.0, "standard": 4.0, "bulk": 1.0}
    scheduler = Scheduler(0.0, affinity_wait_seconds=3.0, lane_weights=weights)
    for n in range(100):
        scheduler.add(unit(f"urgent{n}", kind="cold", bucket=1, lane="interactive"), 0.0)
        scheduler.add(unit(f"many{n}", lane="bulk", tenant="many"), 0.0)
    scheduler.add(unit("one", lane="bulk", kind="colder", tenant="one"), 0.0)
    drain(scheduler, 1)  # of each lane one
    drain(scheduler, 1)
    began = 0.0
    while (taken := jobs(scheduler, began, Room(models=("model of red",)))) != ["one"]:
        assert taken is not None
        began += 1.0
        assert began < 17 * 4 + 2, "16 turns of the other lane, each after its wait"


def test_newcomers_without_end_do_not_pass_one_who_was_served_no_more() -> None:
    scheduler = Scheduler(0.0)
    scheduler.add(unit("waits", tenant="zoe"), 0.0)
    for n in range(3):
        scheduler.add(unit(f"new{n}", tenant=f"bob{n}"), 0.0)
    assert [each.job for each in drain(scheduler, 4)] == ["waits", "new0", "new1", "new2"]


def test_while_it_is_the_turn_of_what_runs_nothing_keeps_it_from_joining() -> None:
    scheduler = Scheduler(0.0, affinity_wait_seconds=1.0)
    scheduler.add(unit("bulk", kind="green", lane="bulk"), 0.0)
    scheduler.add(unit("urgent", lane="interactive"), 0.0)
    assert jobs(scheduler, 50.0, running("red", 1)) == ["urgent"]


# Deadlines.


def test_what_cannot_end_in_time_lets_all_pass_that_can() -> None:
    scheduler = Scheduler(0.0)
    for name, deadline in (("first", 10.0), ("second", 20.0), ("third", 30.0)):
        scheduler.add(unit(name, bucket=1, deadline=deadline, run_seconds=8.0), 0.0)
    assert jobs(scheduler, 2.0) == ["first"], "it ends exactly in time"
    assert jobs(scheduler, 12.5) == ["third"]
    assert jobs(scheduler, 13.0) == ["second"], "where nothing else may go it does"
    scheduler.check_integrity()


def test_in_a_burst_one_is_late_and_not_each_after_it() -> None:
    def in_time(seconds: float) -> int:
        scheduler, now, ended = Scheduler(0.0), 0.0, 0
        for n in range(10):
            scheduler.add(unit(f"j{n}", bucket=1, deadline=9.5 + n * 9.9, run_seconds=seconds), 0.0)
        while len(scheduler):
            scheduler.expired(now)
            chosen = scheduler.take(now, IDLE)
            now += 10.0
            ended += chosen is not None and now <= chosen.units[0].deadline
        return ended

    assert (in_time(0.0), in_time(10.0)) == (0, 9)


def test_pictures_of_a_late_job_are_late_together_and_keep_their_service() -> None:
    scheduler = Scheduler(0.0)
    for n in range(3):
        scheduler.add(unit("late", n, tenant="heavy", bucket=1, deadline=10.0, run_seconds=8.0), 0.0)
    scheduler.add(unit("fine", tenant="light", bucket=1), 0.0)
    scheduler.served("heavy", "standard", 100.0)
    assert jobs(scheduler, 5.0) == ["fine"]
    scheduler.add(unit("more", tenant="light", bucket=1, deadline=7.0, run_seconds=8.0), 5.0)
    assert jobs(scheduler, 6.0) == ["more"], "among the late ones it is the turn of the least-served too"
    assert scheduler.next_batch(6.0) == 6.0
    assert scheduler.expired(10.0) == ["late"]
    assert len(scheduler) == 0
    scheduler.check_integrity()


def test_what_is_late_waits_for_company_too_and_leaves_when_it_is_discarded() -> None:
    scheduler = Scheduler(batch_wait_seconds=2.0)
    scheduler.add(whole("late", deadline=10.4, run_seconds=9.0), 0.0)
    scheduler.add(whole("gone", deadline=10.0, run_seconds=9.0), 0.5)
    assert scheduler.take(1.6, IDLE) is None, "what came last was late first, and waits no shorter for it"
    assert scheduler.next_batch(1.6) == 2.0
    assert scheduler.discard("gone") == 1
    assert jobs(scheduler, 2.0) == ["late"]
    scheduler.check_integrity()


def test_a_run_is_believed_from_the_third_on_and_the_quickest_of_the_last() -> None:
    expected = Expected()
    for seconds in (100.0, 5.0):
        expected.ran("red", seconds)
    assert expected.run_seconds("red") == 0.0
    expected.ran("red", 6.0)
    assert expected.run_seconds("red") == 5.0
    for _ in range(8):
        expected.ran("red", 7.0)
    assert expected.run_seconds("red") == 7.0


# Leaving.


def test_an_expired_job_leaves_before_it_runs() -> None:
    scheduler = Scheduler(batch_wait_seconds=60.0)
    scheduler.add(whole("late", deadline=5.0), 0.0)
    scheduler.add(whole("late", 1, deadline=5.0), 0.0)
    scheduler.add(whole("fine"), 0.0)
    assert scheduler.next_deadline() == 5.0
    assert scheduler.expired(4.9) == []
    assert scheduler.expired(5.0) == ["late"]
    assert jobs(scheduler, 60.0) == ["fine"]
    scheduler.check_integrity()


def test_a_held_job_expires_too_and_lets_others_pass() -> None:
    scheduler = Scheduler(0.0)
    scheduler.add(unit("odd"), 0.0)
    scheduler.hold("odd", deadline=5.0)
    scheduler.add(unit("fine"), 0.0)
    assert jobs(scheduler, 0.0) == ["fine"]
    assert scheduler.next_deadline() == 5.0
    assert scheduler.expired(5.0) == ["odd"]
    scheduler.check_integrity()


def test_a_held_job_that_is_added_runs() -> None:
    scheduler = Scheduler(0.0)
    scheduler.hold("a", deadline=5.0)
    scheduler.add(unit("a", deadline=5.0), 1.0)
    assert jobs(scheduler, 1.0) == ["a"]
    assert scheduler.expired(6.0) == []
    scheduler.check_integrity()


def test_jobs_that_end_long_before_their_deadline_leave_no_trace() -> None:
    scheduler = Scheduler(0.0)
    for n in range(10_000):
        scheduler.add(unit(f"j{n}", bucket=1, deadline=1e9 + n), 0.0)
        assert scheduler.take(0.0, IDLE) is not None
    scheduler.next_deadline()
    assert len(scheduler._deadlines) <= 64


# Cost.


class Counted(float):
    """A deadline that counts how often it is compared."""

    compared = 0

    def __lt__(self, other: float) -> bool:
        Counted.compared += 1
        return float(self) < other

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return float(self) == other

    __hash__ = float.__hash__


@pytest.mark.parametrize("tenants", [1, 500])
def test_a_choice_looks_at_few_of_what_waits(tenants: int) -> None:
    def compared_a_take(units: int, kinds: int) -> float:
        scheduler = Scheduler(0.0, affinity_wait_seconds=5.0)
        for n in range(units):
            kind, deadline = f"kind{n % kinds}", Counted(1e6 + n * 7919 % units)
            scheduler.add(unit(f"j{n}", kind=kind, tenant=f"t{n % tenants}", deadline=deadline), n / units)
        Counted.compared = 0
        for n in range(200):
            assert scheduler.take(1.0 + n, Room(models=("model of kind1", "model of kind2"))) is not None
        return Counted.compared / 200

    few, many = compared_a_take(1000, 100), compared_a_take(10_000, 1000)
    assert many < 4 * few + 100
    assert many < 500
