"""The scheduler as a state machine: no unit is lost or runs twice, no batch mixes configs or passes its bucket."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gpu_consumer.scheduler import Scheduler, Unit
from schemas.request import LANES

WAIT_SECONDS = 3.0
BUCKETS = {"red": 1, "green": 2, "blue": 4}
RANK = {lane: rank for rank, lane in enumerate(LANES)}


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.scheduler = Scheduler(WAIT_SECONDS)
        self.now = 100.0
        self.queued: dict[tuple[str, int], tuple[Unit, float]] = {}
        self.held: dict[str, float] = {}
        self.jobs = 0

    @rule(
        images=st.integers(1, 5),
        lane=st.sampled_from(LANES),
        config=st.sampled_from(sorted(BUCKETS)),
        lives=st.floats(0.5, 30),
        alone=st.booleans(),
    )
    def add(self, images: int, lane: str, config: str, lives: float, alone: bool) -> None:
        self.jobs += 1
        for n in range(images):
            unit = Unit(
                f"job{self.jobs}", n, lane, config, BUCKETS[config], self.now + lives, alone  # type: ignore[arg-type]
            )  # fmt: skip
            self.scheduler.add(unit, self.now)
            self.queued[unit.job, n] = unit, self.now

    @rule(lives=st.floats(0.5, 30))
    def hold(self, lives: float) -> None:
        self.jobs += 1
        self.scheduler.hold(f"job{self.jobs}", self.now + lives)
        self.held[f"job{self.jobs}"] = self.now + lives

    @rule(seconds=st.floats(0, 5))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def take(self) -> None:
        chosen = self.scheduler.take(self.now)
        may_run = dict(self.queued)
        if chosen is None:
            for group in {pair[0].group for pair in may_run.values()}:
                arrivals = [arrival for unit, arrival in may_run.values() if unit.group == group]
                assert min(arrivals) + WAIT_SECONDS > self.now, "its first unit has waited long enough"
            return
        assert {unit.config_hash for unit in chosen.units} == {chosen.config_hash}
        assert len(chosen.units) <= chosen.units[0].batch_size
        left = {key: pair for key, pair in may_run.items() if pair[0].group == chosen.units[0].group}
        for unit in chosen.units:
            assert left.pop((unit.job, unit.n))[0] == unit
            del self.queued[unit.job, unit.n]
        if left:
            assert len(chosen.units) == chosen.units[0].batch_size, "a batch goes with all that it has room for"
            worst = max(RANK[unit.lane] for unit in chosen.units)
            assert all(RANK[unit.lane] >= worst for unit, _ in left.values()), "an urgent lane goes first"

    @rule()
    def expire(self) -> None:
        gone = set(self.scheduler.expired(self.now))
        due = {unit.job for unit, _ in self.queued.values() if unit.deadline <= self.now}
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
        deadlines = [unit.deadline for unit, _ in self.queued.values()] + list(self.held.values())
        assert deadline == min(deadlines, default=None)
        if batch is not None:
            assert batch >= self.now
            assert batch <= max(self.now, min(arrival for _, arrival in self.queued.values()) + WAIT_SECONDS)


Machine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestScheduler = Machine.TestCase
