"""A batch may be decided while the one before it is written, and is never written without it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from types import SimpleNamespace
from typing import Any

import pytest

from schemas.decision import Decision
from streams.holding import Holding, Surroundings
from streams.inbox import Inbox
from streams.kafka.errors import LeaseVoid
from streams.kafka.lease import Transaction
from streams.metrics import AdmissionMetrics
from streams.settings import AdmissionServiceSettings
from streams.tracing import OFF
from tests.unit.admission.scene import NOW_MS, arrival, fresh_state, make_world, request

BATCH = 2
WORLD = make_world()
PATIENCE_SECONDS = 30


class _Lease:
    """Holds each transaction back until it is told what becomes of it."""

    def __init__(self) -> None:
        self.begun: list[Transaction] = []
        self._fates: asyncio.Queue[Exception | None] = asyncio.Queue()

    async def transact(self, build: Callable[[], Transaction]) -> None:
        self.begun.append(build())
        fate = await self._fates.get()
        if fate is not None:
            raise fate

    def end(self, fate: Exception | None = None) -> None:
        self._fates.put_nowait(fate)


class _Scene:
    """An owner's partition whose log is empty but for what the inbox brings."""

    def __init__(self) -> None:
        self.lease, self.state, self.inbox = _Lease(), fresh_state(), Inbox(100, 1 << 20)
        self.emitted: list[str] = []
        self.moved: list[int] = []
        self.stopping = asyncio.Event()
        settings = AdmissionServiceSettings(batch_max=BATCH, batch_spacing_seconds=0, batch_wait_seconds=0)
        around: Any = SimpleNamespace(
            settings=settings,
            declared=WORLD,
            world=SimpleNamespace(current=WORLD),
            emission=SimpleNamespace(emit=self._emit),
            metrics=AdmissionMetrics(),
            tracing=OFF,
            now_ms=lambda: NOW_MS,
        )
        requests: Any = SimpleNamespace(end=self._end)
        results: Any = SimpleNamespace(take=self._no_results, caught_up=True)
        teller: Any = SimpleNamespace(accepted=lambda *_: None)
        lease: Any = self.lease
        surroundings: Surroundings = around
        self.holding = Holding(
            surroundings, lease, self.state, requests, results, self.inbox, teller, self.stopping, self.moved.append
        )

    async def send(self, *names: str) -> None:
        first = self.state.next
        await self.inbox.put(arrival(request(name), first + number) for number, name in enumerate(names))

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not holds():  # noqa: ASYNC110 -- what is waited for is in memory, and has no event
                await asyncio.sleep(0)

    async def _emit(self, decisions: Sequence[Decision], *, partition: int) -> None:
        assert partition == self.state.partition
        self.emitted += [decision.request_id for decision in decisions]

    async def _end(self) -> int:
        return self.state.next

    async def _no_results(self, _: int) -> list[object]:
        return []


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[_Scene, "asyncio.Task[None]"]]:
    scene = _Scene()
    task = asyncio.create_task(scene.holding.serve())
    try:
        await scene.until(lambda: bool(scene.moved))  # it takes from the inbox
        yield scene, task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError, LeaseVoid):
            await task


async def test_a_full_batch_is_decided_while_the_former_is_written() -> None:
    async with serving() as (scene, _):
        await scene.send("r1", "r2", "r3", "r4")
        await scene.until(lambda: scene.state.decided == 4 and bool(scene.lease.begun))
        assert len(scene.lease.begun) == 1
        assert scene.moved[-1] == 0, "nothing of it is logged yet"
        scene.lease.end()
        await scene.until(lambda: len(scene.lease.begun) == 2)
        assert scene.emitted == ["r1", "r2"]
        assert (scene.moved[-1], scene.state.emitted_through) == (2, 2)
        scene.lease.end()
        await scene.until(lambda: scene.moved[-1] == 4)
        assert scene.emitted == ["r1", "r2", "r3", "r4"]
        assert [*scene.lease.begun[0].offsets.values(), *scene.lease.begun[1].offsets.values()] == [2, 4]


async def test_what_was_decided_ahead_of_a_lost_batch_is_never_written() -> None:
    async with serving() as (scene, task):
        await scene.send("r1", "r2", "r3", "r4")
        await scene.until(lambda: scene.state.decided == 4)
        scene.lease.end(LeaseVoid("in doubt"))
        with pytest.raises(LeaseVoid, match="in doubt"):
            await asyncio.wait_for(task, PATIENCE_SECONDS)
        assert len(scene.lease.begun) == 1
        assert scene.emitted == []
        assert scene.moved[-1] == 0


async def test_a_part_of_a_batch_waits_for_the_former() -> None:
    """More of it may come meanwhile, and a transaction costs much the same for one and for many."""
    async with serving() as (scene, _):
        await scene.send("r1", "r2", "r3")
        await scene.until(lambda: len(scene.lease.begun) == 1)
        for _ in range(20):
            await asyncio.sleep(0)
        assert scene.state.decided == 2
        scene.lease.end()
        await scene.until(lambda: scene.state.decided == 3)


async def test_who_stops_has_written_all_that_was_decided() -> None:
    async with serving() as (scene, task):
        await scene.send("r1", "r2", "r3", "r4")
        await scene.until(lambda: scene.state.decided == 4)
        scene.stopping.set()
        for _ in range(3):  # both, and that their work is produced
            scene.lease.end()
        await asyncio.wait_for(task, PATIENCE_SECONDS)
        assert scene.emitted == ["r1", "r2", "r3", "r4"]
        assert len(scene.lease.begun) == 3
