"""Ours, and arrival order: where a request goes, and what runs next."""

import math
from collections import defaultdict, deque
from collections.abc import Sequence
from hashlib import blake2b
from itertools import takewhile

from admission.placement import Bounds, Unit, place
from admission.stages.route import preferred, way_of
from gpu_consumer.scheduling.queues import Unit as Picture
from gpu_consumer.scheduling.scheduler import Room, Scheduler
from schemas.control import Placement
from tests.benchmarks.affinity.workload import Request


class PlacedRouter:
    """Admission's router, with a table made again every period from what was asked for lately."""

    def __init__(self, partitions: int, half_life: float = 600.0, period: float = 60.0) -> None:
        self._partitions = partitions
        self._fades = math.exp2(-period / half_life)
        self._loads: dict[Unit, float] = defaultdict(float)
        self._table: Placement | None = None

    def partition(self, request: Request) -> int:
        config = request.config
        self._loads[Unit(config.model_key, config.config_hash)] += config.price.gpu_seconds
        return way_of(config, b"tenant/r%d" % request.number, self._partitions, self._table).partition

    def tick(self, now: float) -> None:
        del now
        self._table = place(self._loads, self._partitions, self._table, Bounds(), term=1)
        for unit in self._loads:
            self._loads[unit] *= self._fades


class HashRouter:
    """By the hash of the configuration, as without a table."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions

    def partition(self, request: Request) -> int:
        return preferred(request.config.config_hash, self._partitions)

    def tick(self, now: float) -> None: ...


class SpreadRouter:
    """Any partition, as a producer does that keys by request."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions

    def partition(self, request: Request) -> int:
        return int.from_bytes(blake2b(b"%d" % request.number, digest_size=8).digest(), "big") % self._partitions

    def tick(self, now: float) -> None: ...


class OurQueue:
    """The product's scheduler, told of whole batches of one tenant: fairness is another benchmark's."""

    def __init__(self, batch_wait: float, affinity_wait: float, look_ahead: int) -> None:
        self._settings = (batch_wait, affinity_wait, look_ahead)
        self._scheduler = self._make()
        self._requests: dict[str, Request] = {}

    def add(self, request: Request, now: float) -> None:
        config = request.config
        job = str(request.number)
        self._requests[job] = request
        self._scheduler.add(
            Picture(
                job, 0, "tenant", "standard", config.config_hash, config.kind,
                config.model_key, config.bucket, joins=False, deadline=math.inf, seconds=config.price.gpu_seconds,
            ),
            now,
        )  # fmt: skip

    def take(self, now: float, loaded: str | None) -> Sequence[Request]:
        chosen = self._scheduler.take(now, Room(models=() if loaded is None else (loaded,)))
        return [] if chosen is None else [self._requests.pop(unit.job) for unit in chosen.units]

    def next_at(self, now: float) -> float | None:
        return self._scheduler.next_batch(now)

    def _make(self) -> Scheduler:
        batch_wait, affinity_wait, look_ahead = self._settings
        return Scheduler(batch_wait, affinity_wait_seconds=affinity_wait, look_ahead=look_ahead)

    def give_back(self) -> list[Request]:
        left, self._requests = list(self._requests.values()), {}
        self._scheduler = self._make()
        return left


class ArrivalOrder:
    """The first, and those of its configuration that come within the batching window of it."""

    def __init__(self, bucket: int, batch_wait: float) -> None:
        self._bucket = bucket
        self._wait = batch_wait
        self._waiting: deque[Request] = deque()

    def add(self, request: Request, now: float) -> None:
        del now
        self._waiting.append(request)

    def take(self, now: float, loaded: str | None) -> Sequence[Request]:
        del loaded
        if not self._waiting:
            return []
        first = self._waiting[0]
        company = takewhile(lambda request: request.arrival <= first.arrival + self._wait, self._waiting)
        batch = [request for request in company if request.config is first.config][: self._bucket]
        if len(batch) < self._bucket and now < first.arrival + self._wait:
            return []
        for request in batch:
            self._waiting.remove(request)  # it stands near the front
        return batch

    def next_at(self, now: float) -> float | None:
        del now
        return self._waiting[0].arrival + self._wait if self._waiting else None

    def give_back(self) -> list[Request]:
        left, self._waiting = list(self._waiting), deque()
        return left
