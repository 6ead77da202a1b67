"""What waits for each pool and who serves it: what every partition tells of its work, and the pools' groups.

All of it is best effort. A partition that has told nothing for too long is not counted: who knows what it has by now.
"""

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

from aiokafka.errors import KafkaError

from admission.wait import Wait
from admission.world import World
from schemas.demand import DEMAND_PREFIX, Demand, decode_demand
from schemas.errors import Undecodable, told
from schemas.request import LANES
from schemas.topics import Catalogue
from streams.cluster import Cluster
from streams.demand import Rates, waits_of
from streams.kafka.followed import Followed
from streams.kafka.log import Record
from streams.kafka.periodic import failure_of
from streams.kafka.renewal import is_consumer
from streams.kafka.settings import KafkaSettings
from streams.kafka.view import CompactedView
from streams.metrics import AdmissionMetrics
from streams.settings import AdmissionServiceSettings

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Heard:
    demand: Demand
    at: float  # of the monotonic clock

    def age_seconds(self, wall: float, now: float) -> float:
        """By its own date, and at least since it came: a teller whose clock runs ahead is not believed for longer."""
        return max(wall - self.demand.at.timestamp(), now - self.at)


class WaitsFact(Followed):
    name = "waits"

    def __init__(
        self,
        kafka: KafkaSettings,
        catalogue: Catalogue,
        cluster: Cluster,
        settings: AdmissionServiceSettings,
        metrics: AdmissionMetrics,
    ) -> None:
        self._catalogue = catalogue
        self._cluster = cluster
        self._settings = settings
        self._metrics = metrics
        super().__init__(CompactedView(kafka, catalogue.observations, self.fold))
        self._heard: dict[int, _Heard] = {}
        self._gpus: dict[str, tuple[int, float]] = {}  # pool -> consumers, and when that was seen
        self._began = time.monotonic()
        self._waits: Mapping[str, Wait] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        for work, name in ((self._sum_up(), "waits"), (self._look_at_groups(), "capacity")):
            self._tasks.add(asyncio.create_task(work, name=name))
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        await super().__aexit__()

    @property
    def problem(self) -> str | None:
        return None if self._view.ready else "observations are not read to their end yet"

    @property
    def failure(self) -> Exception | None:
        return super().failure or next(filter(None, map(failure_of, self._tasks)), None)

    @property
    def age_seconds(self) -> float:
        """Since observations, and the groups of all pools, were last heard of; of groups at first since the start."""
        seen = [at for _, at in self._gpus.values()] if self.looked else [self._began]
        return max(super().age_seconds, time.monotonic() - min(seen, default=self._began))

    @property
    def looked(self) -> bool:
        """Whether every pool's consumers were counted once."""
        return self._gpus.keys() == self._catalogue.pools.keys()

    def into(self, world: World) -> World:
        return replace(world, waits=self._waits)

    def fold(self, record: Record) -> None:
        """Other observations stand in the same topic, and what we do not understand changes nothing."""
        if not (record.key or b"").startswith(DEMAND_PREFIX) or record.value is None:
            return
        try:
            demand = decode_demand(record.value)
        except Undecodable as error:
            _LOG.info("a demand at offset %d is passed over: %s", record.offset, error)
            return
        if demand.key == record.key and demand.partition < self._catalogue.requests_partitions:
            self._heard[demand.partition] = _Heard(demand, time.monotonic())

    def demands(self) -> dict[int, Demand]:
        """What is believed now, by partition."""
        wall, now, most = time.time(), time.monotonic(), self._settings.demand_seconds_max
        return {at: each.demand for at, each in self._heard.items() if each.age_seconds(wall, now) <= most}

    def now(self) -> dict[str, Wait]:
        """Summed up from what is believed at this moment."""
        now, most = time.monotonic(), self._settings.demand_seconds_max
        gpus = {pool: number for pool, (number, at) in self._gpus.items() if now - at <= most}
        return waits_of(self.demands().values(), self._catalogue.pools, gpus)

    def rates_before(self, partition: int) -> tuple[Rates, float] | None:
        """What was told last of a partition's rates, and how many seconds ago. They fade by themselves."""
        heard = self._heard.get(partition)
        return None if heard is None else (heard.demand.rates, heard.age_seconds(time.time(), time.monotonic()))

    async def _sum_up(self) -> None:
        while True:
            self._waits = self.now()
            self._expose()
            await asyncio.sleep(self._settings.demand_seconds / 2)

    async def _look_at_groups(self) -> None:
        groups = {self._catalogue.gpu_group(pool): pool for pool in self._catalogue.pools}
        trouble = False
        while True:
            try:
                members = await self._cluster.members(list(groups))
            except (KafkaError, OSError, TimeoutError) as error:
                if not trouble:
                    _LOG.warning("the consumers of the pools cannot be counted for now: %s", told(error))
                trouble = True
            else:
                trouble, now = False, time.monotonic()
                self._gpus = {groups[group]: (sum(map(is_consumer, each)), now) for group, each in members.items()}
            await asyncio.sleep(self._settings.refresh_seconds)

    def _expose(self) -> None:
        wall, now = time.time(), time.monotonic()
        ages = [each.age_seconds(wall, now) for each in self._heard.values()]
        believed = len(self.demands())
        self._metrics.tell("demand_age_seconds", max(ages, default=None))
        self._metrics.set("demands_missing", self._catalogue.requests_partitions - believed)
        for pool, wait in self._waits.items():
            for lane in LANES:  # also one that nobody tells of any more, since nothing is left in it
                seconds = wait.backlog.get(lane, 0.0) if believed else None
                self._metrics.tell("waiting_gpu_seconds", seconds, pool=pool, lane=lane)
            self._metrics.tell("pool_consumers", wait.gpus, pool=pool)
