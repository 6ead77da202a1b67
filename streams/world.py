"""What a decision sees beside its request: files read at the start, topics as they are, and what is followed."""

import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Self

from aiokafka.errors import KafkaError

from admission.settings import AdmissionLimits
from admission.world import World
from schemas.counted import counted
from schemas.cross_check import siblings
from schemas.deployment import DeploymentSettings
from schemas.errors import CatalogueError, told
from schemas.lock import check_lock
from schemas.request import LANES
from schemas.topics import Catalogue
from streams.cluster import Cluster
from streams.facts.base import Fact


def load_world(deployment: DeploymentSettings, limits: AdmissionLimits) -> World:
    """The world as the files declare it, with no pool seen yet.

    Raises CatalogueError where a file is wrong, where a published configuration is not the one that was locked, or
    where the cheaper sibling of one could not stand in for it.
    """
    configs = deployment.load_configs()
    if problems := check_lock(configs, deployment.configs) + siblings(configs):
        raise CatalogueError("; ".join(problems))
    return World(
        catalogue=deployment.catalogue(),
        configs=configs,
        tenants=deployment.load_tenants(),
        work_partitions={},
        limits=limits,
    )


class WorldView:
    """The world now, or the sentence why there is none to decide by. An async context manager.

    What was declared, with each fact's word on top, in their order. While it is not ready nothing is decided and
    nothing is refused: what is missing comes back, a rejection is final.
    """

    def __init__(self, declared: World, cluster: Cluster, facts: Sequence[Fact]) -> None:
        self._declared = declared
        self._cluster = cluster
        self._facts = facts
        self._following = AsyncExitStack()
        self._world: World | None = None
        self._missing = "topics were not looked at yet"
        self.silence: str | None = None  # why topics could not be looked at last; what was seen before stands
        self._seen_at = time.monotonic()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as following:
            for fact in self._facts:
                await following.enter_async_context(fact)
            self._following = following.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._following.aclose()

    @property
    def current(self) -> World | None:
        """As every fact has it at this moment."""
        if self._world is None or self.problem is not None:
            return None
        world = self._world
        for fact in self._facts:
            world = fact.into(world)
        return world if self.problem is None else None  # a fact may meet what it has to read first

    @property
    def problem(self) -> str | None:
        """Why nothing can be decided now. None: all is there."""
        if self._world is None:
            return self._missing
        return next((fact.problem for fact in self._facts if fact.problem is not None), None)

    @property
    def failure(self) -> Exception | None:
        """Why a fact is followed no more: the process must end too."""
        return next((fact.failure for fact in self._facts if fact.failure is not None), None)

    def ages(self) -> dict[str, float]:
        """Seconds since each was last seen current."""
        ages = {fact.name: fact.age_seconds for fact in self._facts}
        return ages | {"topics": time.monotonic() - self._seen_at}

    async def refresh(self) -> None:
        """Look at the topics. A cluster that does not answer leaves the last answer standing: topics are not deleted
        under a running deployment, and the age of the view tells."""
        try:
            counts = await self._cluster.partition_counts()
        except (KafkaError, OSError) as error:
            self._missing = self.silence = f"topics cannot be listed ({told(error)}); look at the broker"
            return
        self._seen_at, self.silence = time.monotonic(), None
        missing = topics_missing(self._declared.catalogue, counts)
        if missing is not None:
            self._world, self._missing = None, missing
            return
        self._world = replace(self._declared, work_partitions=work_partitions(self._declared.catalogue, counts))


def work_partitions(catalogue: Catalogue, counts: Mapping[str, int]) -> dict[str, int]:
    """Partitions a pool. Its lanes have the same number but for the moment in which they grow."""
    return {pool: min(counts[catalogue.work(pool, lane)] for lane in LANES) for pool in catalogue.pools}


def topics_missing(catalogue: Catalogue, counts: Mapping[str, int]) -> str | None:
    """The first topic without which no decision may be made, as a sentence."""
    homes = (catalogue.requests, catalogue.decisions, catalogue.tenants, catalogue.results)
    work = {catalogue.work(name, lane): pool.partitions for name, pool in catalogue.pools.items() for lane in LANES}
    for topic in (*homes, catalogue.dead_letters, catalogue.cancels, catalogue.control, catalogue.observations, *work):
        if topic not in counts:
            return f"the topic {topic} is missing; run `kiln topics create`"
    for topic, declared in work.items():
        if counts[topic] < declared:
            has = counted(counts[topic], "partition")
            return f"{topic} has {has} and its pool declares {declared}; grow the topic"
    for topic in homes:
        if counts[topic] != catalogue.requests_partitions:
            has = counted(counts[topic], "partition")
            return (
                f"{topic} has {has} and this process expects {catalogue.requests_partitions}; "
                "set KILN_TOPICS_REQUESTS_PARTITIONS to what the deployment was born with"
            )
    return None
