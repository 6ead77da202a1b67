"""The product's decisions, asked by a virtual pool: where a request goes, and what runs next."""

import math
from array import array
from collections import defaultdict
from collections.abc import Callable, Sequence

from admission.placement import Bounds, Unit, place
from admission.stages.route import way_of
from gpu_consumer.scheduling.expected import Expected
from gpu_consumer.scheduling.queues import Unit as Picture
from gpu_consumer.scheduling.scheduler import Room, Scheduler
from infra.planner.pool import PERIOD_SECONDS
from infra.planner.request import Request
from schemas.control import Placement

MEAN_SECONDS = 300.0  # of what is asked for, in a table of places: the default of admission


class PlacedRouter:
    """Admission's router, with a table made again every `period` from what was asked for lately."""

    def __init__(self, partitions: int, half_life: float = 600.0, period: float = PERIOD_SECONDS) -> None:
        self._partitions = partitions
        self._fades = math.exp2(-period / half_life)
        self._loads: dict[Unit, float] = defaultdict(float)
        self._table: Placement | None = None

    def partition(self, request: Request) -> int:
        config = request.config
        self._loads[Unit(config.model_key, config.config_hash)] += request.seconds
        return way_of(config, b"tenant/r%d" % request.number, self._partitions, self._table).partition

    def tick(self, now: float) -> None:
        del now
        self._table = place(self._loads, self._partitions, self._table, Bounds(), term=1)
        for unit in self._loads:
            self._loads[unit] *= self._fades


class Routed:
    """A router that has been asked before. It knows nothing of consumers, so it says the same to each scaler."""

    def __init__(self, places: Sequence[int]) -> None:
        """`places`: the partition of each request, by its number."""
        self._places = places

    @classmethod
    def of(cls, requests: Sequence[Request], partitions: int) -> "Routed":
        """`requests`: numbered from 0 on, in the order of arrival."""
        router = PlacedRouter(partitions, half_life=MEAN_SECONDS * math.log(2))
        places, tick_at = array("l"), PERIOD_SECONDS
        for request in requests:
            while request.arrival >= tick_at:
                router.tick(tick_at)
                tick_at += PERIOD_SECONDS
            places.append(router.partition(request))
        return cls(places)

    def partition(self, request: Request) -> int:
        return self._places[request.number]

    def tick(self, now: float) -> None: ...


class SchedulerQueue:
    """The consumer's scheduler. A request is one unit, whatever its images; `joins`: it never waits for company."""

    def __init__(self, batch_wait: float, affinity_wait: float, look_ahead: int, *, joins: bool = False) -> None:
        self._joins = joins
        self._expected = Expected()
        self._scheduler = Scheduler(batch_wait, affinity_wait_seconds=affinity_wait, look_ahead=look_ahead)
        self._requests: dict[str, Request] = {}

    def __len__(self) -> int:
        return len(self._requests)

    def add(self, request: Request, now: float) -> None:
        config = request.config
        job = str(request.number)
        self._requests[job] = request
        self._scheduler.add(
            Picture(
                job, 0, request.tenant, request.lane, config.config_hash, config.kind, config.model_key, config.bucket,
                joins=self._joins, deadline=request.deadline, seconds=request.seconds,
                run_seconds=self._expected.run_seconds(config.config_hash),
            ),
            now,
        )  # fmt: skip

    def take(self, now: float, loaded: tuple[str, ...]) -> Sequence[Request]:
        chosen = self._scheduler.take(now, Room(models=loaded))
        return [] if chosen is None else [self._requests.pop(unit.job) for unit in chosen.units]

    def next_at(self, now: float) -> float | None:
        return self._scheduler.next_batch(now)

    def expired(self, now: float) -> list[Request]:
        return [self._requests.pop(job) for job in self._scheduler.expired(now)]

    def ran(self, request: Request, seconds: float) -> None:
        self._expected.ran(request.config.config_hash, seconds)

    def give_back(self, lost: Callable[[Request], bool]) -> list[Request]:
        left = [request for request in self._requests.values() if lost(request)]
        for request in left:
            self._scheduler.discard(str(request.number))
            del self._requests[str(request.number)]
        return left
