"""Who opens which index when the group changes its mind."""

import asyncio
from collections.abc import Coroutine
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

    def __init__(self, tasks: asyncio.TaskGroup, hand_over_seconds: float = 0.0) -> None:
        self.made: asyncio.Queue[FakeIndex] = asyncio.Queue()
        self.adopted: asyncio.Queue[Any] = asyncio.Queue()
        self.member = True
        self.asked = asyncio.Semaphore(0)
        self._group = tasks
        self.tasks: list[asyncio.Task[None]] = []
        self.handing_over: asyncio.Queue[Any] = asyncio.Queue()
        self.may_hand_over = asyncio.Event()
        self.may_hand_over.set()
        self.owner = Owner(
            KafkaSettings(bootstrap_servers="127.0.0.1:1", backoff_first_ms=1, backoff_most_ms=10),
            GpuMetrics(),
            Clock(),
            make=self._make,
            is_live_member=self._is_live_member,
            open_seconds_max=60,
            hand_over_seconds=hand_over_seconds,
            spawn=self._spawn,
            adopted=self.adopted.put_nowait,
            lost=lambda index: None,
            hand_over=self._hand_over,
        )

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self.tasks.append(self._group.create_task(work))

    async def _hand_over(self, index: Index) -> None:
        self.handing_over.put_nowait(index)
        await self.may_hand_over.wait()

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


async def test_an_index_that_moves_away_may_be_written_to_before_it_is_closed() -> None:
    async with asyncio.timeout(PATIENCE_SECONDS), asyncio.TaskGroup() as tasks:
        bench = Bench(tasks)
        bench.owner.assign({0})
        index = await bench.made.get()
        index.may_open.set()
        assert await bench.adopted.get() is index
        bench.may_hand_over.clear()
        bench.owner.assign(set())
        assert await bench.handing_over.get() is index
        assert not index.closing.is_set()
        bench.may_hand_over.set()
        await index.closing.wait()
        index.may_close.set()


async def test_an_index_that_another_member_had_is_opened_a_while_later() -> None:
    async with asyncio.timeout(PATIENCE_SECONDS), asyncio.TaskGroup() as tasks:
        bench = Bench(tasks, hand_over_seconds=3600)
        bench.owner.assign({0, 1}, moved={0})
        free = await bench.made.get()
        assert free.number == 1
        free.may_open.set()
        assert await bench.adopted.get() is free
        assert bench.made.empty()
        assert not bench.owner.all_open
        bench.owner.assign({1})
        free.may_close.set()
        await bench.owner.close()
        for task in bench.tasks:
            task.cancel()
