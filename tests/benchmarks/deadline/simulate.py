"""One device and what waits for it: the consumer's scheduler, beside a row in the order of arrival."""

import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from infra.planner.cells import free_config
from infra.planner.deciding import SchedulerQueue
from infra.planner.pool import Pool, Queue
from infra.planner.replay import Outcome, Priced
from infra.planner.request import Request
from infra.planner.scalers import Fixed
from schemas.config import GenerationConfig

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
        self._waiting: deque[Request] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, request: Request, now: float) -> None:
        del now
        self._waiting.append(request)

    def take(self, now: float, loaded: tuple[str, ...]) -> Sequence[Request]:
        del now, loaded
        return [self._waiting.popleft()] if self._waiting else []

    def next_at(self, now: float) -> float | None:
        del now
        return None

    def expired(self, now: float) -> list[Request]:
        gone = [request for request in self._waiting if request.deadline <= now]
        self._waiting = deque(request for request in self._waiting if request.deadline > now)
        return gone

    def ran(self, request: Request, seconds: float) -> None: ...

    def give_back(self, lost: Callable[[Request], bool]) -> list[Request]:
        raise AssertionError("there is one consumer")


class OnePartition:
    def partition(self, request: Request) -> int:
        del request
        return 0

    def tick(self, now: float) -> None: ...


def ours() -> Queue:
    return SchedulerQueue(batch_wait=0.25, affinity_wait=5.0, look_ahead=256, joins=True)


def simulate(requests: Sequence[Request], queue: Callable[[], Queue]) -> Outcome:
    outcome = Outcome()
    pool = Pool(Priced(swap=0.0), 1, OnePartition(), queue, backlog_max=1 << 30, watcher=outcome)
    pool.run(requests, max(request.deadline for request in requests) + 1e5, Fixed(1))
    return outcome
