"""Who opens which index when the group changes its mind."""

import asyncio
from typing import Any, cast

from gpu_consumer.clock import Clock
from gpu_consumer.index import Index
from gpu_consumer.metrics import GpuMetrics
from gpu_consumer.owner import Owner
from streams.kafka.settings import KafkaSettings

PATIENCE_SECONDS = 20


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


async def _alive() -> bool:
    return True


async def test_an_index_that_comes_back_while_its_late_opening_is_closed_is_opened_again() -> None:
    made: asyncio.Queue[FakeIndex] = asyncio.Queue()

    def make(number: int) -> Index:
        index = FakeIndex(number)
        made.put_nowait(index)
        return cast("Index", index)

    kafka = KafkaSettings(bootstrap_servers="127.0.0.1:1", backoff_first_ms=1, backoff_most_ms=10)
    adopted: asyncio.Queue[Any] = asyncio.Queue()
    async with asyncio.timeout(PATIENCE_SECONDS), asyncio.TaskGroup() as tasks:
        owner = Owner(
            kafka,
            GpuMetrics(),
            Clock(),
            make=make,
            is_live_member=_alive,
            open_seconds_max=60,
            spawn=tasks.create_task,
            adopted=adopted.put_nowait,
            lost=lambda index: None,
        )
        owner.assign({0})
        first = await made.get()
        owner.assign(set())
        first.may_open.set()
        await first.closing.wait()
        owner.assign({0})
        first.may_close.set()
        second = await made.get()
        second.may_open.set()
        assert await adopted.get() is second
        assert owner.all_open
        second.may_close.set()
        await owner.close()
