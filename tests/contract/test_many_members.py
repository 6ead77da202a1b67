"""Case AIO-14: many GPU consumers that come at once, while one already holds jobs."""

import asyncio
from collections.abc import Iterable, Set

from aiokafka.admin import NewTopic

from gpu_consumer.fetcher import Fetcher
from gpu_consumer.settings import GpuConsumerSettings
from schemas.request import LANES
from schemas.topics import Catalogue
from streams.kafka.settings import KafkaSettings
from tests.contract.leased import create, until
from tests.kafka import POOL, small_catalogue

MEMBERS = 12
INDEXES = 43  # of three lanes each: 129 partitions
GENERATIONS_MAX = 4


class Member:
    """Has the partitions that it is given, and takes nothing: as one does whose slots are taken."""

    def __init__(self, kafka: KafkaSettings, catalogue: Catalogue) -> None:
        self.indexes: Set[int] = set()
        self.fetcher = Fetcher(
            GpuConsumerSettings(pool=POOL), kafka, catalogue,
            index_of=lambda _: None, assigned=self._assigned, room=lambda _: 0, take=lambda *_: None,
            pass_over=lambda *_: None, unreadable=lambda *_: None,
        )  # fmt: skip

    def _assigned(self, numbers: Set[int], _: Set[int]) -> None:
        self.indexes = numbers

    @property
    def generation(self) -> int:
        generation: int = self.fetcher._consumer._coordinator.generation
        return generation

    async def run(self) -> None:
        await self.fetcher.start()
        await self.fetcher.run()


def generations(members: Iterable[Member]) -> Set[int]:
    return {member.generation for member in members}


async def test_a_pool_that_grows_from_one_to_twelve_is_shared_out_within_a_few_generations(
    kafka: KafkaSettings, prefix: str
) -> None:
    catalogue = small_catalogue(prefix)
    await create(kafka, *(NewTopic(catalogue.work(POOL, lane), INDEXES, 1) for lane in LANES))
    patient = KafkaSettings(bootstrap_servers=kafka.bootstrap_servers)
    members = [Member(patient, catalogue) for _ in range(MEMBERS)]

    async def shared_out_among(some: list[Member]) -> bool:
        if sorted(index for member in some for index in member.indexes) != list(range(INDEXES)):
            return False
        return all([await member.fetcher.is_live_member() for member in some]) and len(generations(some)) == 1

    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(members[0].run())]
        await until(lambda: shared_out_among(members[:1]))
        before = members[0].generation
        running += [tasks.create_task(member.run()) for member in members[1:]]
        await until(lambda: shared_out_among(members))
        (after,) = generations(members)
        counts = {len(member.indexes) for member in members}
        for task in running:
            task.cancel()
    await asyncio.gather(*(member.fetcher.leave(5) for member in members))
    assert after - before <= GENERATIONS_MAX
    assert counts == {3, 4}
