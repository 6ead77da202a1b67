"""Who opens which index when the group changes its mind."""

import asyncio
from typing import Any, cast

from gpu_consumer.clock import Clock
from gpu_consumer.index import Index
from gpu_consumer.metrics import GpuMetrics
from gpu_consumer.owner import Owner
from streams.kafka.settings import KafkaSettings

PATIENCE_SECONDS = 60


class FakeIndex:
    """Opens and closes when the test lets it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.is_open = False
        self.opened_seconds = 0.0
        self.may_open = asyncio.Event()
        self.may_close = asyncio.Event()
        self.closing = asyncio.Event()

    async def open(self) -> None:
        await self.may_open.wait()
        self.is_open = True

    def lose(self) -> None:
        self.is_open = False

    async def close(self) -> None:
        self.closing.set()
        await self.may_close.wait()
        self.is_open = False


class Bench:
    """An owner over fake indexes, and the group's word on whether it is a member."""

    def __init__(self, tasks: asyncio.TaskGroup) -> None:
        self.made: asyncio.Queue[FakeIndex] = asyncio.Queue()
        self.adopted: asyncio.Queue[Any] = asyncio.Queue()
        self.member = True
        self.asked = asyncio.Semaphore(0)
        self.owner = Owner(
            KafkaSettings(bootstrap_servers="127.0.0.1:1", backoff_first_ms=1, backoff_most_ms=10),
            GpuMetrics(),
            Clock(),
            make=self._make,
            is_live_member=self._is_live_member,
            open_seconds_max=60,
            spawn=tasks.create_task,
            adopted=self.adopted.put_nowait,
            lost=lambda index: None,
        )

    def _make(self, number: int) -> Index:
        index = FakeIndex(number)
        self.made.put_nowait(index)
        return cast("Index", index)

    async def _is_live_member(self) -> bool:
        self.asked.release()
        return self.member


async def test_an_index_that_comes_back_while_its_late_opening_is_closed_is_opened_again() -> None:
    async with asyncio.timeout(PATIENCE_SECONDS), asyncio.TaskGroup() as tasks:
        bench = Bench(tasks)
        bench.owner.assign({0})
        first = await bench.made.get()
        bench.owner.assign(set())
        first.may_open.set()
        await first.closing.wait()
        bench.owner.assign({0})
        first.may_close.set()
        second = await bench.made.get()
        second.may_open.set()
        assert await bench.adopted.get() is second
        assert bench.owner.all_open
        second.may_close.set()
        await bench.owner.close()


# case AIO-10
async def test_a_zombie_does_not_fence_its_successor() -> None:
    """What it believes to be assigned is opened when the group knows it, and not before."""
    async with asyncio.timeout(PATIENCE_SECONDS), asyncio.TaskGroup() as tasks:
        bench = Bench(tasks)
        bench.member = False
        bench.owner.assign({0})
        for _ in range(5):
            await bench.asked.acquire()
        assert bench.made.empty()
        bench.member = True
        index = await bench.made.get()
        index.may_open.set()
        assert await bench.adopted.get() is index
        index.may_close.set()
        await bench.owner.close()
