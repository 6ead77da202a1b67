"""The scheduler under any calls: nothing is lost or runs twice, kinds do not mix, nobody waits for ever."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gpu_consumer.scheduling.scheduler import Room, Scheduler, Unit
from schemas.request import LANES

WAIT_SECONDS = 3.0
AFFINITY_SECONDS = 5.0
LOOK_AHEAD = 6
BUCKETS = {"red": 1, "green": 2, "blue": 4, "pink": 2, "whole": 3}
TENANTS = ("ann", "bob", "eve")


def unit(job: str, n: int = 0, **changes: Any) -> Unit:
    kind = changes.pop("kind", "red")
    values: dict[str, Any] = {
        "tenant": "ann", "lane": "standard", "config_hash": kind, "kind": kind, "model": f"m{len(kind) % 2}",
        "bucket": BUCKETS[kind], "joins": kind != "whole", "deadline": 1e9, "seconds": 1.0,
    }  # fmt: skip
    return Unit(job, n, **(values | changes))


def make() -> Scheduler:
    return Scheduler(WAIT_SECONDS, affinity_wait_seconds=AFFINITY_SECONDS, look_ahead=LOOK_AHEAD)


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.scheduler = make()
        self.now = 100.0
        self.queued: dict[tuple[str, int], tuple[Unit, float]] = {}
        self.held: dict[str, float] = {}
        self.jobs = 0

    @rule(
        images=st.integers(1, 5),
        lane=st.sampled_from(LANES),
        kind=st.sampled_from(sorted(BUCKETS)),
        tenant=st.sampled_from(TENANTS),
        lives=st.floats(0.5, 30),
        seconds=st.floats(0, 4),
        run_seconds=st.floats(0, 20),
        alone=st.booleans(),
    )
    def add(self, images: int, lives: float, **values: Any) -> None:
        self.jobs += 1
        for n in range(images):
            added = unit(f"job{self.jobs}", n, deadline=self.now + lives, **values)
            self.scheduler.add(added, self.now)
            self.queued[added.job, n] = added, self.now

    @rule(lives=st.floats(0.5, 30))
    def hold(self, lives: float) -> None:
        self.jobs += 1
        self.scheduler.hold(f"job{self.jobs}", self.now + lives)
        self.held[f"job{self.jobs}"] = self.now + lives

    @rule(seconds=st.floats(0, 5))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(
        kind=st.none() | st.sampled_from(sorted(BUCKETS)),
        slots=st.integers(0, 5),
        models=st.lists(st.sampled_from(["m0", "m1"]), unique=True).map(tuple),
        busy=st.booleans(),
    )
    def take(self, kind: str | None, slots: int, models: tuple[str, ...], busy: bool) -> None:
        room = Room(kind, slots, models, idle=kind is None and not busy)
        chosen = self.scheduler.take(self.now, room)
        if chosen is None:
            if room.idle:
                for each, arrival in self.queued.values():
                    assert not each.joins, "it need not wait"
                    assert not each.alone, "it need not wait"
                    assert arrival + WAIT_SECONDS > self.now, "it has waited long enough"
            return
        units = chosen.units
        late = [each for each in units if each.starts_by < self.now]
        assert late in ([], list(units)), "what is late joins nothing that is not"
        waiting = [(each, at) for each, at in self.queued.values() if each.starts_by >= self.now and each not in units]
        may_go = [each for each, at in waiting if each.joins or each.alone or at + WAIT_SECONDS <= self.now]
        assert not (late and may_go), "it passed one that can end in time"
        assert {each.kind for each in units} == {units[0].kind}
        assert kind in (None, units[0].kind), "what runs is joined by its own kind only"
        assert len(units) <= (units[0].bucket if kind is None else slots)
        if any(each.alone for each in units):
            assert len(units) == 1
            assert room.idle
        left = {
            key: pair
            for key, pair in self.queued.items()
            if pair[0].group == units[0].group and (pair[0].starts_by < self.now) == bool(late)
        }
        for each in units:
            assert left.pop((each.job, each.n))[0] == each
            del self.queued[each.job, each.n]
        if left:
            full = 1 if units[0].alone else (units[0].bucket if kind is None else slots)
            assert len(units) == full, "it goes with all that there is room for"

    @rule(tenant=st.sampled_from(TENANTS), lane=st.sampled_from(LANES), seconds=st.floats(-3, 3))
    def correct(self, tenant: str, lane: Any, seconds: float) -> None:
        self.scheduler.served(tenant, lane, seconds)

    @rule()
    def expire(self) -> None:
        gone = set(self.scheduler.expired(self.now))
        due = {each.job for each, _ in self.queued.values() if each.deadline <= self.now}
        due |= {job for job, deadline in self.held.items() if deadline <= self.now}
        assert gone == due
        self.queued = {key: pair for key, pair in self.queued.items() if key[0] not in gone}
        self.held = {job: deadline for job, deadline in self.held.items() if job not in gone}

    @precondition(lambda self: self.queued)
    @rule(data=st.data())
    def discard(self, data: st.DataObject) -> None:
        job = data.draw(st.sampled_from(sorted({key[0] for key in self.queued})))
        mine = [key for key in self.queued if key[0] == job]
        assert self.scheduler.discard(job) == len(mine)
        for key in mine:
            del self.queued[key]

    @invariant()
    def nothing_is_lost(self) -> None:
        self.scheduler.check_integrity()
        assert len(self.scheduler) == len(self.queued)

    @invariant()
    def it_wakes_in_time(self) -> None:
        batch, deadline = self.scheduler.next_batch(self.now), self.scheduler.next_deadline()
        assert (batch is None) == (not self.queued)
        deadlines = [each.deadline for each, _ in self.queued.values()] + list(self.held.values())
        assert deadline == min(deadlines, default=None)
        if batch is not None:
            assert batch >= self.now
            assert batch <= max(self.now, min(arrival for _, arrival in self.queued.values()) + WAIT_SECONDS)


Machine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestScheduler = Machine.TestCase


class Play:
    """An engine of one second a picture whose slots never run out of newer work, from any others than `mine`.

    `loads`: a model that ran is loaded, in place of the one before; else one model is preferred for ever.
    """

    def __init__(self, arrivals: list[dict[str, Any]], *, loads: bool = True) -> None:
        self.scheduler = make()
        self.arrivals = arrivals
        self.now = 0.0
        self.count = 0
        self.loads = loads
        self.models = ("m0",)
        self.running: list[Unit] = []
        self.taken: list[Unit] = []

    def arrive(self) -> None:
        for values in self.arrivals:
            self.count += 1
            self.scheduler.add(unit(f"other{self.count}", **values), self.now)

    def room(self) -> Room:
        if not self.running:
            return Room(models=self.models)
        kind = self.running[0].kind
        joins = self.running[0].joins and not self.running[0].alone
        return Room(kind, BUCKETS[kind] - len(self.running) if joins else 0, self.models, idle=False)

    def step(self) -> None:
        """As many arrive as there are slots; what runs whole or alone ends together, the others one by one."""
        self.arrive()
        while (chosen := self.scheduler.take(self.now, self.room())) is not None:
            self.running += chosen.units
            self.taken += chosen.units
            if self.loads:
                self.models = (chosen.units[0].model,)
        if self.running and self.running[0].joins:
            self.running.pop(0)
        else:
            self.running.clear()
        self.now += 1.0


others = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(sorted(BUCKETS)),
        "lane": st.sampled_from(LANES),
        "tenant": st.sampled_from(TENANTS),
        "seconds": st.floats(0.5, 2),
        "deadline": st.floats(1, 1e6),
    }
)


@settings(max_examples=60, deadline=None)
@given(
    arrivals=st.lists(others, min_size=1, max_size=4),
    lane=st.sampled_from(LANES),
    kind=st.sampled_from(sorted(BUCKETS)),
    alone=st.booleans(),
    before=st.integers(0, 30),
    loads=st.booleans(),
)
def test_nobody_starves_whatever_arrives(
    arrivals: list[dict[str, Any]], lane: str, kind: str, alone: bool, before: int, loads: bool
) -> None:
    play = Play(arrivals, loads=loads)
    for _ in range(before):
        play.step()
    play.scheduler.add(unit("mine", lane=lane, kind=kind, tenant="zoe", alone=alone), play.now)
    # Its lane has at least 1 of 21 parts, its tenant at least a quarter of that, and each turn may wait for affinity.
    steps = 0
    while not any(each.job == "mine" for each in play.taken):
        play.step()
        steps += 1
        assert steps < 21 * 4 * 2 * (AFFINITY_SECONDS + LOOK_AHEAD), "it starves"


@settings(max_examples=60, deadline=None)
@given(arrivals=st.lists(others, min_size=1, max_size=4), alone=st.booleans())
def test_what_runs_passes_the_one_whose_turn_it_is_for_a_bounded_time(
    arrivals: list[dict[str, Any]], alone: bool
) -> None:
    """Its lane and tenant are behind all others', so it is its turn from the start."""
    play = Play([values | {"lane": "standard"} for values in arrivals])
    for _ in range(20):
        play.step()
    play.scheduler.served("ann", "standard", 1e6)
    play.scheduler.served("bob", "standard", 1e6)
    play.scheduler.served("eve", "standard", 1e6)
    play.scheduler.add(unit("mine", lane="interactive", kind="red", tenant="zoe", alone=alone), play.now)
    began, passed = play.now, len(play.taken)
    while not any(each.job == "mine" for each in play.taken):
        play.step()
    drain = max(BUCKETS.values())
    assert play.now - began <= AFFINITY_SECONDS + drain + 2
    assert len(play.taken) - passed <= LOOK_AHEAD + 2 * drain


@settings(max_examples=40, deadline=None)
@given(arrivals=st.lists(others, min_size=1, max_size=4))
def test_the_same_arrivals_give_the_same_choices(arrivals: list[dict[str, Any]]) -> None:
    first, second = Play(arrivals), Play(arrivals)
    for _ in range(60):
        first.step()
        second.step()
    assert first.taken == second.taken
