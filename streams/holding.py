"""A requests partition under an open lease: decide, log and act, batch after batch.

Under load a batch is decided while the one before it is logged and acted on. It was decided by what that one says, so
it is logged after it or, where that one came to nothing, never: then all that is remembered is worthless.

What the intake brings is a hint that is often complete. The truth is the log of requests between our own next offset
and its end, so whatever shows as a hole is read there: records the intake lost, and transaction markers, which nobody
delivers and which would leave a lag for ever (case KQ-13).
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass

from admission.arrival import Arrival
from admission.state import Mark, State
from admission.world import World
from streams.batch import Batch, fold_results, progress
from streams.cluster import Cluster
from streams.demand import Teller
from streams.emission import Emission
from streams.entering import tell
from streams.inbox import Inbox, batch_length
from streams.kafka.errors import LogTruncated
from streams.kafka.lease import Lease, Transaction
from streams.kafka.settings import KafkaSettings
from streams.metrics import AdmissionMetrics
from streams.placing import PLACED_BY, Placing
from streams.requests import RequestsReader
from streams.results import ResultsReader
from streams.settings import AdmissionServiceSettings
from streams.telling import Telling
from streams.tracing import Tracing
from streams.usage import UsageCounts
from streams.world import WorldView

_WORLD_POLL_SECONDS = 0.1
_RESULTS_MAX = 500  # some 25 ms of reading at a time, so that folding an old backlog delays no heartbeat
_AT_ONCE = 50  # requests decided in two or three milliseconds, so that what is written meanwhile gets its turns


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all owners of a process share."""

    settings: AdmissionServiceSettings
    kafka: KafkaSettings
    declared: World
    world: WorldView
    cluster: Cluster
    emission: Emission
    telling: Telling
    placing: Placing
    metrics: AdmissionMetrics
    tracing: Tracing
    is_live_member: Callable[[], Awaitable[bool]]
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000


class Holding:
    """One open lease and the memory that is true under it. `serve` is called once; after any exception of it both are
    worthless. `moved` is told the next offset after every pass that left all well."""

    def __init__(
        self,
        around: Surroundings,
        lease: Lease,
        state: State,
        requests: RequestsReader,
        results: ResultsReader,
        inbox: Inbox,
        teller: Teller,
        stopping: asyncio.Event,
        moved: Callable[[int], None],
    ) -> None:
        self._around = around
        self._lease = lease
        self._state = state
        self._requests = requests
        self._results = results
        self._inbox = inbox
        self._teller = teller
        self._stopping = stopping
        self._moved = moved
        self._partition = state.partition
        self._label = str(state.partition)
        self._catalogue = around.declared.catalogue
        self._logged_at = 0.0  # the newest batch, of the monotonic clock
        self._end_seen = 0  # of the log, when we were idle last
        self._unwritten = False  # of the cursor: what was emitted or skipped since it was read for a transaction
        self._writing: asyncio.Task[None] | None = None  # the newest batch, logged and acted on

    async def serve(self) -> None:
        """Until asked to stop. Raises LeaseVoid, LogUnavailable or KafkaError in doubt; LogTruncated and
        RecordUnreadable where requests are lost."""
        try:
            with suppress(_Stopped):
                await self._serve()
            await self._written()
            if self._unwritten:
                # A courtesy to the next owner, who would produce the last batch again.
                await self._say(lambda: progress(self._state, self._catalogue))
        except Exception:
            await self._written()  # where that fails, what was decided after it means nothing, a refusal included
            raise
        finally:
            if self._writing is not None:
                self._writing.cancel()
                await asyncio.gather(self._writing, return_exceptions=True)

    async def _serve(self) -> None:
        await self._read_through(await self._requests.end())  # what the group's offset may have jumped over
        self._inbox.open()
        await self._read_through(await self._requests.end())  # what came before the inbox was open
        while not self._stopping.is_set():
            await self._pass()

    async def _pass(self) -> None:
        settings = self._around.settings
        if len(self._inbox) < settings.batch_max:  # more may come meanwhile, and nothing is to be decided ahead
            await self._written()
        arrivals = await self._inbox.take(
            settings.batch_max,
            settings.batch_bytes_max,
            idle_seconds=settings.idle_seconds,
            linger_seconds=settings.batch_wait_seconds,
            rest_until=self._logged_at + settings.batch_spacing_seconds,
        )
        self._around.metrics.set("queue_length", len(self._inbox), partition=self._label)
        if self._partition == PLACED_BY:
            await self._place()
        next_offset = self._state.next
        fresh = {arrival.offset: arrival for arrival in arrivals if arrival.offset >= next_offset}
        if not fresh:
            await self._idle()
        elif max(fresh) - next_offset + 1 == len(fresh):
            await self._batch([fresh[offset] for offset in sorted(fresh)])
        else:
            self._around.metrics.count("holes_total", partition=self._label)
            await self._read_through(max(fresh) + 1)
        if self._writing is None:
            self._moved(self._state.next)

    async def _idle(self) -> None:
        """Read what the intake left out, fold results, and write a small transaction if there is anything to say."""
        await self._written()
        overdue, self._end_seen = self._end_seen, await self._requests.end()
        self._around.metrics.set("lag", max(0, self._end_seen - self._state.next), partition=self._label)
        # What came since we looked last the intake may be about to bring: to read that too would be to read it twice.
        await self._read_through(overdue)
        results = await self._results.take(_RESULTS_MAX)
        whole, now_ms = self._results.caught_up, self._around.now_ms()
        caught_up = whole and not self._state.results_whole
        if not results and not self._unwritten and not caught_up:
            return

        usage = UsageCounts()
        tenants = (self._around.world.current or self._around.declared).tenants

        def build() -> Transaction:
            fold_results(results, self._state, tenants, usage)
            self._state.see_results(whole=whole, now_ms=now_ms)
            self._unwritten = False
            return progress(self._state, self._catalogue)

        await self._say(build)
        self._around.metrics.count("results_folded_total", len(results))
        usage.count_into(self._around.metrics)

    async def _place(self) -> None:
        """Say where work goes from now on, if it is time and that has changed."""
        world = self._around.world.current
        tables = [] if world is None else await self._around.placing.news(time.monotonic(), world.placements)
        if tables:
            await self._say(lambda: progress(self._state, self._catalogue, tables))
            self._around.metrics.count("placements_total", len(tables))

    async def _read_through(self, stop: int) -> None:
        """Decide every request from our next offset to `stop`, as the log itself has them."""
        while self._state.next < stop:
            try:
                await self._read(stop)
            except LogTruncated as lost:
                if not self._around.settings.accept_loss or lost.asked >= lost.first:
                    raise
                self._skip_to(lost.first)

    async def _read(self, stop: int) -> None:
        settings = self._around.settings
        async with aclosing(self._requests.between(self._state.next, stop)) as fetches:
            async for arrivals in fetches:
                while arrivals:
                    length = batch_length(arrivals, settings.batch_max, settings.batch_bytes_max)
                    await self._batch(arrivals[:length])
                    del arrivals[:length]
        self._skip_to(stop)

    def _skip_to(self, offset: int) -> None:
        if self._state.next < offset:
            self._state.skip_to(offset)
            self._unwritten = True

    async def _batch(self, arrivals: list[Arrival]) -> None:
        """Decide them while the batch before is written, then let them be written."""
        world, began, began_ns = await self._world(), time.monotonic(), time.time_ns()
        batch = Batch(self._state, world, self._around.now_ms(), self._around.tracing)
        results = await self._results.take(_RESULTS_MAX)
        batch.fold(results, whole=self._results.caught_up)
        for first in range(0, len(arrivals), _AT_ONCE):
            if self._writing is not None:
                await asyncio.sleep(0)
            batch.decide(arrivals[first : first + _AT_ONCE])
        transaction, mark, self._unwritten = batch.close(), self._state.mark(), False
        for config, gpu_seconds in batch.taken.values():
            self._teller.accepted(config, gpu_seconds, time.monotonic())
        await self._written()
        writing = self._write(batch, transaction, mark, (began, began_ns))
        self._writing = asyncio.create_task(writing, name=f"batch of requests[{self._label}]")

    async def _write(self, batch: Batch, transaction: Transaction, mark: Mark, began: tuple[float, int]) -> None:
        """Log and act: what was decided at `mark` stands then, and its work is produced."""
        await self._lease.transact(lambda: transaction)
        logged_ns = time.time_ns()
        self._logged_at = time.monotonic()
        await self._around.emission.emit(batch.accepted, partition=self._partition)
        self._state.emitted(mark)
        self._unwritten |= bool(batch.decided)  # also refusals: what is not said to be emitted must stay in the log
        tell(self._around.tracing, batch.traced, (began[1], logged_ns, time.time_ns()))
        metrics = self._around.metrics
        metrics.observe("batch_seconds", time.monotonic() - began[0])
        metrics.observe("batch_records", batch.arrivals)
        batch.count_into(metrics)
        self._moved(mark.next)

    async def _say(self, build: Callable[[], Transaction]) -> None:
        """A transaction of its own. What it says was decided must be logged before it."""
        await self._written()
        await self._lease.transact(build)

    async def _written(self) -> None:
        """Wait for the batch that is written. Raises what became of it."""
        if self._writing is not None:
            await self._writing
            self._writing = None

    async def _world(self) -> World:
        """Waits for what is missing: a request is not refused because we cannot see."""
        while not self._stopping.is_set():
            if (world := self._around.world.current) is not None:
                return world
            if self._writing is not None and self._writing.done():
                await self._written()  # a void lease is opened again also where nothing can be seen
            await pause(self._stopping, _WORLD_POLL_SECONDS)
        raise _Stopped


class _Stopped(Exception):
    """Asked to stop while waiting; the requests at hand are the next owner's."""


async def pause(stopping: asyncio.Event, seconds: float) -> None:
    """Wait so long, or until asked to stop."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stopping.wait()
