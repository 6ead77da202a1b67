"""One trace, one scaler: what it costs and what it misses."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gpu_consumer.scheduling.scheduler import Scheduler
from infra.planner.deciding import Routed
from infra.planner.device import Priced
from infra.planner.given import Router
from infra.planner.house import House
from infra.planner.pool import Pool, Scaler
from infra.planner.request import Request

SAMPLE_SECONDS = 60.0


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
    ended_seconds: float = 0.0  # of the GPU: what those cost that have ended, or would have
    replicas_most: int = 0
    waits: list[float] = field(default_factory=list)
    missed_at: list[float] = field(default_factory=list)  # the deadlines of what was not made in time
    samples: list[Sample] = field(default_factory=list)

    @property
    def share_in_time(self) -> float:
        return self.in_time / self.asked if self.asked else 1.0

    @property
    def missed(self) -> int:
        return self.asked - self.in_time

    @property
    def idle(self) -> bool:
        """Whether all that was asked for has ended."""
        return self.asked == self.in_time + self.late + self.expired

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
        self.ended_seconds += request.seconds
        if made and now <= request.deadline:
            self.in_time += 1
            return
        self.missed_at.append(request.deadline)
        self.late += made
        self.expired += not made


@dataclass(frozen=True, slots=True)
class Standing:
    """A replay that goes on. `missed`: so far; `paid_seconds`: until `now`; `left_seconds`: of the GPU, at least, for
    all that has not ended."""

    now: float
    missed: int
    paid_seconds: float
    left_seconds: float


class GivenUp(Exception):
    """Nobody wants to know how this replay ends."""


def to_its_end(standing: Standing) -> bool:
    """A replay that is never given up."""
    del standing
    return True


class Sampled:
    """A scaler, and a look at the pool every so often. The bill is `closed` when the last of `asked` has ended: what a
    pool holds for nobody afterwards is no part of a trace's cost."""

    def __init__(
        self,
        scaler: Scaler,
        outcome: Outcome,
        requests: Sequence[Request],
        *,
        closes: bool,
        goes_on: Callable[[Standing], bool],
    ) -> None:
        self._scaler = scaler
        self._outcome = outcome
        self._asked = len(requests)
        self._work = sum(request.seconds for request in requests)
        self._closes = closes
        self._goes_on = goes_on
        self._next = self._sample = 0.0
        self.closed = False

    def look(self, now: float, pool: Pool) -> float:
        if now >= self._next:
            self._next = self._scaler.look(now, pool)
        if self.closed:
            return self._next
        outcome, size = self._outcome, pool.size
        outcome.replicas_most = max(outcome.replicas_most, size)
        if now >= self._sample:
            self._sample = now + SAMPLE_SECONDS
            ready = sum(each.ready for each in pool.staying())
            outcome.samples.append(Sample(now, size, ready, len(pool.waiting)))
            paid = pool.paid_seconds + sum(now - each.asked_at for each in pool.consumers.values())
            if self._closes and outcome.asked == self._asked and outcome.idle:
                self.closed = True
                outcome.paid_seconds = paid
                outcome.busy_seconds = pool.busy_seconds + sum(each.busy(now) for each in pool.consumers.values())
            running = sum(request.seconds for each in pool.consumers.values() for request in each.running)
            left = self._work - outcome.ended_seconds - running
            if not self._goes_on(Standing(now, len(outcome.missed_at), paid, left)):
                raise GivenUp
        return min(self._next, self._sample)


def replay(
    requests: Sequence[Request],
    house: House,
    scaler: Scaler,
    until: float,
    *,
    router: Router | None = None,
    closes: bool = False,
    goes_on: Callable[[Standing], bool] = to_its_end,
) -> Outcome:
    """`router`: None is admission's. `closes`: what is paid and busy counts until all is done, not until
    the end. `goes_on` is asked every so often; where it says no, GivenUp is raised."""
    outcome = Outcome()
    pool = Pool(
        Priced(house.swap_seconds), house, router or Routed.of(requests, house.partitions),
        lambda: Scheduler(
            house.batch_wait_seconds, affinity_wait_seconds=house.affinity_wait_seconds, look_ahead=house.look_ahead
        ),
        outcome,
    )  # fmt: skip
    sampled = Sampled(scaler, outcome, requests, closes=closes, goes_on=goes_on)
    pool.run(requests, until, sampled)
    if not sampled.closed:
        outcome.paid_seconds, outcome.busy_seconds = pool.paid_seconds, pool.busy_seconds
        outcome.missed_at += [job.deadline for job in pool.waiting.values()]
        outcome.missed_at += [request.deadline for each in pool.consumers.values() for request in each.running]
    outcome.rebalances = pool.rebalances
    return outcome
