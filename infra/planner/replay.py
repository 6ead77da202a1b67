"""One trace, one scaler: what it costs and what it misses."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from infra.planner.deciding import PlacedRouter, SchedulerQueue
from infra.planner.pool import Pool, Scaler
from infra.planner.request import Request

SAMPLE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Priced:
    """A card on which a batch takes what its pictures cost together: batching saves nothing but swaps."""

    swap: float

    def seconds(self, batch: Sequence[Request]) -> float:
        return sum(request.seconds for request in batch)


@dataclass(frozen=True, slots=True)
class House:
    """What a pool is and how its consumers are set. The defaults are those of their settings."""

    partitions: int
    load_seconds: float
    swap_seconds: float = 20.0
    models_held: int = 4
    rebalance_seconds: float = 3.0
    batch_wait_seconds: float = 0.25
    affinity_wait_seconds: float = 5.0
    look_ahead: int = 256
    backlog_max: int = 512


@dataclass(frozen=True, slots=True)
class Sample:
    """`size`: replicas as the deployment says them; `ready`: of these; `waiting`: requests that were not begun."""

    at: float
    size: int
    ready: int
    waiting: int


@dataclass(slots=True)
class Outcome:
    asked: int = 0
    in_time: int = 0
    late: int = 0  # made, after their deadline
    expired: int = 0
    paid_seconds: float = 0.0
    busy_seconds: float = 0.0
    rebalances: int = 0
    swaps: int = 0
    waits: list[float] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)

    @property
    def share_in_time(self) -> float:
        return self.in_time / self.asked if self.asked else 1.0

    @property
    def missed(self) -> int:
        return self.asked - self.in_time

    @property
    def gpu_hours(self) -> float:
        return self.paid_seconds / 3600

    @property
    def busy(self) -> float:
        return self.busy_seconds / self.paid_seconds if self.paid_seconds else 0.0

    # A watcher of the pool.

    def arrived(self, request: Request, owner: str | None) -> None:
        del request, owner
        self.asked += 1

    def began(self, now: float, batch: Sequence[Request], swap: float) -> None:
        self.swaps += swap > 0
        self.waits += [now - request.arrival for request in batch]

    def ended(self, now: float, request: Request, *, made: bool) -> None:
        if not made:
            self.expired += 1
        elif now <= request.deadline:
            self.in_time += 1
        else:
            self.late += 1


class Sampled:
    """A scaler, and a look at the pool every so often."""

    def __init__(self, scaler: Scaler, outcome: Outcome) -> None:
        self._scaler = scaler
        self._outcome = outcome
        self._next = self._sample = 0.0

    def look(self, now: float, pool: Pool) -> float:
        if now >= self._next:
            self._next = self._scaler.look(now, pool)
        if now >= self._sample:
            self._sample = now + SAMPLE_SECONDS
            ready = sum(each.ready for each in pool.staying())
            self._outcome.samples.append(Sample(now, pool.size, ready, len(pool.waiting)))
        return min(self._next, self._sample)


def replay(requests: Sequence[Request], house: House, scaler: Scaler, until: float) -> Outcome:
    outcome = Outcome()
    pool = Pool(
        Priced(house.swap_seconds),
        house.partitions,
        PlacedRouter(house.partitions),
        lambda: SchedulerQueue(house.batch_wait_seconds, house.affinity_wait_seconds, house.look_ahead),
        backlog_max=house.backlog_max,
        watcher=outcome,
        load_seconds=house.load_seconds,
        rebalance_seconds=house.rebalance_seconds,
        models_held=house.models_held,
    )
    pool.run(requests, until, Sampled(scaler, outcome))
    outcome.paid_seconds, outcome.busy_seconds, outcome.rebalances = (
        pool.paid_seconds,
        pool.busy_seconds,
        pool.rebalances,
    )
    return outcome
