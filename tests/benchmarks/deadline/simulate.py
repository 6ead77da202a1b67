"""One device and what waits for it: the consumer's scheduler, beside a row in the order of arrival."""

import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpu_consumer.scheduling.scheduler import Chosen, Room, Scheduler, Unit
from infra.planner.cells import free_config
from infra.planner.device import Priced
from infra.planner.given import Queue
from infra.planner.house import House
from infra.planner.pool import Pool
from infra.planner.replay import Outcome
from infra.planner.request import Request
from infra.planner.scalers import Fixed
from schemas.config import GenerationConfig
from schemas.request import Lane

# Seconds of the GPU, and how often it is asked for; all of one model, for swaps are bench-affinity's.
KINDS = ((4.0, 0.5), (10.0, 0.35), (30.0, 0.15))
WAITS = (30.0, 60.0, 120.0, 300.0)  # seconds beyond its own that a request may take
BURSTS_CV = 4.0  # of the time between two arrivals


@dataclass(frozen=True, slots=True)
class Case:
    """`load`: work asked for, of what the device can do. `tenants`: among whom it is drawn."""

    load: float
    seed: int
    requests: int = 1500
    tenants: int = 1


def asked(case: Case) -> list[Request]:
    draw = random.Random(case.seed)
    configs = [free_config(f"c{seconds:.0f}", "one", seconds) for seconds, _ in KINDS]
    weights = [weight for _, weight in KINDS]
    moment, drawn = 0.0, list[tuple[float, GenerationConfig, float, str]]()
    for _ in range(case.requests):
        moment += draw.gammavariate(BURSTS_CV**-2, BURSTS_CV**2)
        config = draw.choices(configs, weights)[0]
        drawn.append((moment, config, draw.choice(WAITS), f"t{draw.randrange(case.tenants)}"))
    work = sum(config.price.gpu_seconds for _, config, _, _ in drawn)
    scale = work / case.load / moment
    return [
        Request(number, at * scale, config, tenant, "standard", at * scale + config.price.gpu_seconds + wait)
        for number, (at, config, wait, tenant) in enumerate(drawn)
    ]


def eager(requests: Sequence[Request]) -> int:
    """In time, where each is run to its end in the order of arrival, and nobody looks at a deadline."""
    now, in_time = 0.0, 0
    for request in requests:
        now = max(now, request.arrival) + request.seconds
        in_time += now <= request.deadline
    return in_time


class Row:
    """In the order of arrival. It begins nothing whose deadline is over, and ends at the deadline what it began."""

    def __init__(self) -> None:
        self._waiting: deque[Unit] = deque()

    def add(self, unit: Unit, now: float) -> None:
        del now
        self._waiting.append(unit)

    def take(self, now: float, room: Room) -> Chosen | None:
        del now, room
        return Chosen((self._waiting.popleft(),), 0.0) if self._waiting else None

    def next_batch(self, now: float) -> float | None:
        del now
        return None

    def served(self, tenant: str, lane: Lane, gpu_seconds: float) -> None: ...

    def expired(self, now: float) -> Sequence[str]:
        gone = [unit.job for unit in self._waiting if unit.deadline <= now]
        self._waiting = deque(unit for unit in self._waiting if unit.deadline > now)
        return gone

    def discard(self, job: str) -> int:
        del job  # it has one picture, and is not queued any more
        return 0


class OnePartition:
    def partition(self, request: Request) -> int:
        del request
        return 0

    def tick(self, now: float) -> None: ...


def ours() -> Queue:
    return Scheduler(0.25, affinity_wait_seconds=5.0, look_ahead=256)


def simulate(requests: Sequence[Request], queue: Callable[[], Queue]) -> Outcome:
    outcome = Outcome()
    pool = Pool(Priced(swap=0.0), House(1, backlog_max=1 << 30, rebalance_seconds=0.0), OnePartition(), queue, outcome)
    pool.run(requests, max(request.deadline for request in requests) + 1e5, Fixed(1))
    return outcome
