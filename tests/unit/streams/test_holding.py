"""A batch may be decided while the one before it is written, and is never written without it."""

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from types import SimpleNamespace
from typing import Any

import pytest

from admission.arrival import Arrival
from admission.errors import StateRefused
from schemas.decision import Decision
from schemas.tenancy import CURSOR_KEY, Cursor
from streams.batch import Batch
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
        self._lock = asyncio.Lock()

    async def transact(self, build: Callable[[], Transaction]) -> None:
        async with self._lock:
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
        self.left_out: list[Arrival] = []  # in the log, and the intake lost it
        self.world = SimpleNamespace(current=WORLD)
        self.stopping = asyncio.Event()
        settings = AdmissionServiceSettings(
            batch_max=BATCH, batch_spacing_seconds=0, batch_wait_seconds=0, idle_seconds=0.05
        )
        around: Any = SimpleNamespace(
            settings=settings,
            declared=WORLD,
            world=self.world,
            emission=SimpleNamespace(emit=self._emit),
            metrics=AdmissionMetrics(),
            tracing=OFF,
            now_ms=lambda: NOW_MS,
        )
        requests: Any = SimpleNamespace(end=self._end, between=self._between)
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
        """Behind the marker of the transaction that wrote what was left out."""
        return max([self.state.next, *(each.offset + 2 for each in self.left_out)])

    async def _between(self, start: int, stop: int) -> AsyncIterator[list[Arrival]]:
        if found := [each for each in self.left_out if start <= each.offset < stop]:
            yield found

    async def _no_results(self, _: int) -> list[object]:
        return []

    def decisions(self, number: int) -> int:
        """How many the transaction of that number has."""
        return sum(each.topic == WORLD.catalogue.decisions for each in self.lease.begun[number].outputs)

    def cursor(self, number: int) -> Cursor:
        """Of the transaction of that number."""
        (value,) = (each.value for each in self.lease.begun[number].outputs if each.key == CURSOR_KEY)
        return Cursor.model_validate_json(value or b"")


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[_Scene, "asyncio.Task[None]"]]:
    scene, complaints = _Scene(), list[str]()
    asyncio.get_running_loop().set_exception_handler(lambda _, told: complaints.append(told["message"]))
    task = asyncio.create_task(scene.holding.serve())
    try:
        await scene.until(lambda: bool(scene.moved))  # it takes from the inbox
        yield scene, task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError, LeaseVoid, StateRefused):
            await task
    del task
    gc.collect()
    assert complaints == [], "a failure that nobody looked at"


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
    """Case FST-17: work is written outside of transactions, and only once the transaction with its decision stands."""
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


async def test_nothing_that_rests_on_a_batch_is_said_before_it() -> None:
    """The intake lost a request that a transaction wrote; read while idle, its batch leaves a marker to be skipped."""
    async with serving() as (scene, _):
        scene.left_out = [arrival(request("r1"), 0)]
        await scene.until(lambda: bool(scene.lease.begun))
        assert scene.decisions(0) == 1, "the decision comes before a cursor that counts it"
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(scene.lease.begun) == 1
        scene.lease.end()
        await scene.until(lambda: len(scene.lease.begun) == 2)
        assert scene.emitted == ["r1"]
        assert (scene.cursor(0).next, scene.cursor(1).next, scene.cursor(1).emitted) == (1, 2, 1)


async def test_after_refusals_alone_the_last_cursor_says_that_nothing_is_left_to_produce() -> None:
    """Else they would be missed where a quiet week took them from the log, and admission would not start."""
    async with serving() as (scene, task):
        await scene.inbox.put(arrival(request(name, seed=-1), offset) for offset, name in enumerate(("r1", "r2")))
        await scene.until(lambda: len(scene.lease.begun) == 1)
        scene.lease.end()
        await scene.until(lambda: scene.moved[-1] == 2)
        scene.stopping.set()
        scene.inbox.shut()
        scene.lease.end()
        await asyncio.wait_for(task, PATIENCE_SECONDS)
        last = scene.cursor(-1)
        assert (last.decided, last.emitted, last.emitted_through) == (2, 2, 2)


async def test_a_lost_batch_is_noticed_while_there_is_nothing_to_see_by() -> None:
    async with serving() as (scene, task):
        await scene.send("r1", "r2", "r3", "r4", "r5", "r6")
        await scene.until(lambda: scene.state.decided == 4)
        scene.world.current = None
        scene.lease.end()
        await scene.until(lambda: len(scene.lease.begun) == 2)
        scene.lease.end(LeaseVoid("in doubt"))
        with pytest.raises(LeaseVoid, match="in doubt"):
            await asyncio.wait_for(task, PATIENCE_SECONDS)
        assert scene.emitted == ["r1", "r2"]


@pytest.mark.parametrize(
    ("fate", "ends", "emitted"),
    [(None, StateRefused, ["r1", "r2"]), (LeaseVoid("in doubt"), LeaseVoid, [])],
    ids=["written", "lost"],
)
async def test_what_was_found_out_ahead_counts_only_where_the_former_batch_is_written(
    fate: Exception | None, ends: type[Exception], emitted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An owner that was fenced must open again, whatever it believes of requests that are another's."""
    decide = Batch.decide

    def refuse_the_second(batch: Batch, arrivals: Sequence[Arrival]) -> None:
        if arrivals[0].offset == BATCH:
            scene.lease.end(fate)
            raise StateRefused("decisions are gone")
        decide(batch, arrivals)

    monkeypatch.setattr(Batch, "decide", refuse_the_second)
    async with serving() as (scene, task):
        await scene.send("r1", "r2", "r3", "r4")
        with pytest.raises(ends):
            await asyncio.wait_for(task, PATIENCE_SECONDS)
        assert scene.emitted == emitted
        assert not [each for each in asyncio.all_tasks() if "batch of requests" in each.get_name()]


@pytest.mark.parametrize("turns", range(8))
async def test_a_cancel_at_any_moment_leaves_nothing_running(turns: int) -> None:
    async with serving() as (scene, task):
        await scene.send("r1", "r2", "r3", "r4", "r5", "r6")
        scene.lease.end()
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not [each for each in asyncio.all_tasks() if "batch of requests" in each.get_name()]
        assert scene.emitted in ([], ["r1", "r2"])
        assert len(scene.lease.begun) <= 2
