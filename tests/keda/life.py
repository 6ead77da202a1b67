"""The life of a pool's group, on a real broker, by our real consumer: its ledger and its transactions move the offsets,
and the engine holds what runs until it may end."""

from collections.abc import Awaitable, Callable

from schemas.request import LANES, Lane
from streams.kafka.groups import INDEX_PROTOCOL
from streams.kafka.renewal import renew
from tests.integration.gpu_pool import GpuPool, eventually, work_item
from tests.kafka import POOL
from tests.keda.offsets import delete_records, expire_offsets, partitions_of
from tests.scripted import ScriptedEngine

SECONDS = 6.0  # of the GPU for each job
See = Callable[[str], Awaitable[None]]


class Life:
    """`live` calls `see` with the words of the table whenever something has happened, and goes on when it returns."""

    def __init__(self, pool: GpuPool, see: See) -> None:
        self._pool = pool
        self._see = see
        self._engine = ScriptedEngine()
        self._made = 0

    async def live(self) -> None:
        await self._see("The topics are new: nobody has written or read")
        await self._work(interactive=3, standard=16, bulk=40)
        await self._see("Work has come before the first consumer")
        self._engine.gate.clear()
        async with self._pool.consumer(self._engine):
            await self._taken()
            await self._see("A consumer has taken all of it, and nothing is done")
            await self._let_end()
            await self._see("All is done")
            await self._long_jobs()
            await self._see("Five long jobs run, and nothing waits")
            await self._see("They still run at the next poll")
            await self._let_end()
            await self._see("They are done")
            self._engine.gate.clear()
            await self._work(bulk=200)
            await self._taken()
            await self._see("A burst: 200 at once")
            await self._let_end()
            await self._see("It is done")
        await self._see("The last consumer has gone")
        assert await renew(self._pool.kafka, self._group, [INDEX_PROTOCOL]) == "renewed"
        await self._see("Admission has renewed its offsets, as it does while a pool sleeps")
        await expire_offsets(self._pool.kafka, self._group)
        await self._see("Nobody has kept its offsets alive: they have expired")
        async with self._pool.consumer(self._engine):
            await self._committed()
        await self._see("A consumer has started, and told what is finished")
        await self._work(standard=20)
        await self._see("Work has come again")
        async with self._pool.consumer(self._engine):
            await self._let_end()
            await self._see("It is done, too")
        await delete_records(self._pool.kafka, map(self._pool.work, LANES), self._partitions)
        await expire_offsets(self._pool.kafka, self._group)
        await self._see("Retention has deleted all, and the offsets have expired")

    @property
    def _group(self) -> str:
        return self._pool.catalogue.gpu_group(POOL)

    @property
    def _partitions(self) -> int:
        return self._pool.catalogue.pools[POOL].partitions

    async def _work(self, **lanes: int) -> None:
        """To four of the partitions only: the others are never written, and must show no lag (case KEDA-17)."""
        items = []
        for lane in LANES:
            for _ in range(lanes.get(lane, 0)):
                self._made += 1
                items.append(work_item(f"job{self._made}", lane=lane, price_gpu_seconds=SECONDS))
        await self._pool.produce(items)

    async def _long_jobs(self) -> None:
        self._engine.gate.clear()
        await self._work(interactive=5)
        await self._taken()

    async def _taken(self) -> None:
        """The engine has a batch of what was sent last, and holds it; the group has an offset everywhere."""
        seen = len(self._engine.batches)
        await eventually(lambda: any(self._engine._running) or len(self._engine.batches) > seen, "a batch runs")
        await self._committed()

    async def _let_end(self) -> None:
        self._engine.gate.set()
        await self._pool.wait_until_done()

    async def _committed(self) -> None:
        async def everywhere() -> bool:
            found = [await self._offsets(lane) for lane in LANES]
            return all(None not in each for each in found)

        await eventually(everywhere, "every partition has a committed offset")

    async def _offsets(self, lane: Lane) -> list[int | None]:
        found = await partitions_of(self._pool.kafka, self._group, self._pool.work(lane), self._partitions)
        return [partition.committed for partition in found]
