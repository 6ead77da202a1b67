"""One GPU consumer, put together: fetcher, owner, backlog, runner, settler. No torch in this process.

fetcher -> backlog -> scheduler -> runner -> engine -> settler
   ^ pause and resume                          store, then one transaction
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence, Set
from contextlib import suppress
from typing import Any
from uuid import uuid4

from gpu_consumer.backlog import Backlog, Job
from gpu_consumer.cancels import Cancels
from gpu_consumer.clock import Clock
from gpu_consumer.engine.protocol import Engine, Observed, Profiled, Ready
from gpu_consumer.fetcher import Fetcher
from gpu_consumer.index import Change, Index
from gpu_consumer.intake import read_work
from gpu_consumer.metrics import GpuMetrics
from gpu_consumer.outcomes import Outcomes
from gpu_consumer.owner import Owner
from gpu_consumer.results import environment
from gpu_consumer.running.keeper import note_start
from gpu_consumer.running.runner import Runner
from gpu_consumer.scheduling.scheduler import Scheduler
from gpu_consumer.settings import GpuConsumerSettings
from gpu_consumer.settle import Settler
from gpu_consumer.spending import Spending
from gpu_consumer.stops import Stops
from gpu_consumer.store.outcomes import OutcomeStore
from gpu_consumer.traces import JobTraces
from gpu_consumer.watch import Watch
from schemas.counted import counted
from schemas.errors import Undecodable
from schemas.outcome import WorkRecord
from schemas.progress import ProgressEvent
from schemas.request import Lane
from schemas.tenants import Tenants
from schemas.topics import Catalogue
from streams.kafka.errors import LeaseVoid
from streams.kafka.log import Record
from streams.kafka.settings import KafkaSettings
from streams.tracing import OFF, Tracing

_LOG = logging.getLogger(__name__)


class GpuConsumer:
    """Give it an engine that has started, then `run` it once. `aside` hears what the engine says beside its work."""

    def __init__(
        self,
        settings: GpuConsumerSettings,
        kafka: KafkaSettings,
        catalogue: Catalogue,
        engine: Engine,
        store: OutcomeStore,
        metrics: GpuMetrics,
        *,
        incarnation: str | None = None,
        clock: Clock | None = None,
        tenants: Tenants | None = None,
        tracing: Tracing = OFF,
        aside: Callable[[Observed | Profiled], None] = lambda _: None,
    ) -> None:
        self._settings = settings
        self._results_partitions = catalogue.requests_partitions
        self._metrics = metrics
        self._clock = clock or Clock()
        self.incarnation = incarnation or uuid4().hex[:12]
        traces = JobTraces(tracing, self._clock, settings.pool)
        self.spending = Spending(metrics, self._clock, settings.pool, catalogue.pools[settings.pool], tenants)
        self._backlog = Backlog(
            Scheduler(
                settings.batch_wait_seconds,
                affinity_wait_seconds=settings.affinity_wait_seconds,
                lane_weights=settings.lane_weights,
                look_ahead=settings.look_ahead,
            )
        )
        self._deadlines = self._backlog.listen()
        self._outcomes = Outcomes(store, settings, metrics)
        self._outcomes.on_answer = self._backlog.changed
        self._cancels = Cancels(kafka, catalogue, heard=self._cancelled)
        self._stops = Stops(
            kafka, catalogue, settings.pool, self._clock,
            wait_seconds=settings.control_wait_seconds, changed=self._stopped, quotas=self.spending.hear,
        )  # fmt: skip
        self._settler = Settler(
            settings, catalogue, self._backlog, self._outcomes, metrics, self._clock, self.spending.price, traces,
            incarnation=self.incarnation, spawn=self._spawn, on_void=self._on_void, cancelled=self._why_cancelled,
        )  # fmt: skip
        self._runner = Runner(
            settings, engine, self._backlog, self._settler, self._outcomes, metrics, self._clock, self.spending, traces,
            incarnation=self.incarnation, aside=aside, paused_until=self._stops.paused_until,
        )  # fmt: skip
        self._fetcher = Fetcher(
            settings, kafka, catalogue,
            index_of=self._index_of, assigned=self._assigned,
            room=self._room, take=self._take, pass_over=self._pass_over, unreadable=self._unreadable,
        )  # fmt: skip
        self._owner = Owner(
            kafka, metrics, self._clock,
            make=lambda number: Index(kafka, catalogue, settings.pool, number),
            is_live_member=self._fetcher.is_live_member, open_seconds_max=settings.reopen_seconds_max,
            hand_over_seconds=settings.hand_over_seconds,
            spawn=self._spawn, adopted=self._fetcher.place, lost=self._settler.drop,
            hand_over=self._runner.hand_over,
        )  # fmt: skip
        self._watch = Watch(
            settings, kafka, self._fetcher, self._owner, self._backlog, self._runner, self._outcomes, self._cancels,
            self._stops, metrics, self._clock,
        )  # fmt: skip
        self._tasks: asyncio.TaskGroup | None = None
        self._busy: set[asyncio.Task[None]] = set()
        self._draining = False
        self._ended = False

    async def run(self, ready: Ready, stop: asyncio.Event) -> None:
        """Join the group and work until `stop` is set; then drain, within settings.grace_seconds.

        Raises an ExceptionGroup of what ended it: EngineUnusable, CannotOpen, NoProgress, or a bug of ours.
        """
        self._settler.environment = environment(ready)
        note_start(self._metrics, ready)
        try:
            async with self._cancels, self._stops, asyncio.TaskGroup() as self._tasks:
                await self._fetcher.start()
                loops = [
                    self._tasks.create_task(self._fetcher.run(), name="fetch"),
                    self._tasks.create_task(self._expire(), name="expire"),
                    self._tasks.create_task(self._watch.run(), name="watch"),
                ]
                running = self._tasks.create_task(self._runner.run(), name="run")
                await stop.wait()
                await self._drain(running)
                self._ended = True
                for task in [*loops, running, *self._busy]:
                    task.cancel()
        finally:
            self._ended = True
            # After a crash too: the successor need not wait for the session to end.
            await self._close()

    def live(self) -> str | None:
        return self._watch.stuck

    def ready(self) -> str | None:
        """What a person has to know before sending more work here, or None."""
        if self._draining:
            return "draining"
        if (wrong := self._watch.stuck or self._watch.waiting_for()) is not None:
            return wrong
        if problems := self._backlog.problems():
            return f"{counted(len(problems), 'job')} held: {problems[0]}"
        if not self._owner.all_open:
            return self._owner.problem or "opening the leases of the partitions just assigned"
        return None

    @property
    def left_seconds(self) -> float:
        """GPU-seconds until what runs is drawn: what a drain would have to wait for."""
        return self._runner.left_seconds

    def steps(self) -> list[ProgressEvent]:
        """How far jobs are, where that is news. They are told of by this call, once each; after the end, never."""
        return [] if self._ended else self._runner.steps.news(self._clock.now())

    @property
    def store_calls(self) -> int:
        """Calls of the store that have not returned; at the end they may hang up to the store's own deadline."""
        return self._outcomes.calls

    @property
    def idle(self) -> bool:
        """Nothing taken that is not settled."""
        return not self._backlog.jobs and not self._busy

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        assert self._tasks is not None, "run first"
        if self._ended:  # a rebalance may still be told while we leave the group
            work.close()
            return
        task = self._tasks.create_task(work)
        self._busy.add(task)
        task.add_done_callback(self._busy.discard)

    # What the fetcher asks and tells.

    def _index_of(self, number: int) -> Index | None:
        return self._owner.get(number)

    def _assigned(self, numbers: set[int], moved: Set[int]) -> None:
        self._owner.assign(numbers, moved)

    def _on_void(self, index: Index, error: LeaseVoid) -> None:
        self._owner.void(index, error)

    def _room(self, lane: Lane) -> int:
        """Records of a lane that may be taken now: none while the store is down, for nothing could be settled, nor
        while the pool is paused."""
        if self._outcomes.waiting_for is not None or not self._stops.read or self._stops.paused is not None:
            return 0
        return self._settings.backlog_max - self._backlog.pictures(lane)

    def _take(self, index: Index, lane: Lane, records: Sequence[Record]) -> None:
        jobs = []
        for record in records:
            place = WorkRecord(topic=record.topic, partition=record.partition, offset=record.offset)
            try:
                work = read_work(record.value, record.headers, self._results_partitions)
            except Undecodable as error:
                self._spawn(self._settler.dead_letter(index, lane, place, record.key, record.value, str(error)))
                continue
            value = record.value if work.problem is not None else None
            deadline = self._clock.steady_of(work.deadline_ms)
            jobs.append(Job(index, lane, place, work, record.key, value, deadline))
        self._settler.admit(jobs)

    def _cancelled(self, name: bytes) -> None:
        for job in self._backlog.named(name):
            if self._cancels.reaches(job):
                self._settler.cancel(job)

    def _why_cancelled(self, job: Job) -> str | None:
        return "" if self._cancels.reaches(job) else self._stops.reaches(job)

    def _stopped(self) -> None:
        """Something was paused, resumed or dropped."""
        for job in list(self._backlog.jobs.values()):
            if (because := self._stops.reaches(job)) is not None:
                self._settler.cancel(job, because)
        self._backlog.changed()

    def _pass_over(self, index: Index, lane: Lane, offset: int) -> None:
        self._metrics.count("holes_total", offset - index.next(lane))
        self._spawn(self._write(index, index.skip(lane, offset)))

    async def _write(self, index: Index, change: Change) -> None:
        await self._settler.write(index, [change])

    def _unreadable(self, index: Index, lane: Lane, offset: int, message: str) -> None:
        place = WorkRecord(topic=index.partition(lane).topic, partition=index.number, offset=offset)
        self._spawn(self._settler.dead_letter(index, lane, place, None, None, message))

    # Loops.

    async def _expire(self) -> None:
        while True:
            self._deadlines.clear()
            now = self._clock.steady()
            for job_id in self._backlog.scheduler.expired(now):
                self._settler.due(job_id)
            due = self._backlog.scheduler.next_deadline()
            with suppress(TimeoutError):
                async with asyncio.timeout(None if due is None else max(0.0, due - now)):
                    await self._deadlines.wait()

    # The end.

    async def _drain(self, running: asyncio.Task[None]) -> None:
        """Take nothing more, let what runs be settled as far as the grace goes, hand back the rest."""
        _LOG.info("draining: %d jobs taken, %d running", len(self._backlog.jobs), len(self._runner.running))
        self._draining = True
        deadline = self._clock.steady() + self._settings.grace_seconds - self._settings.close_seconds
        self._fetcher.stop()
        self._runner.stop()
        await asyncio.wait({running}, timeout=max(0.0, deadline - self._clock.steady()))
        while self._backlog.count("settling") and self._clock.steady() < deadline:
            settling = set(self._busy)
            await asyncio.wait(settling, timeout=deadline - self._clock.steady(), return_when=asyncio.FIRST_COMPLETED)
        self._runner.give_up()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.close_seconds / 3):
                await asyncio.gather(*(self._settler.hand_back(index) for index in self._owner.open))

    async def close(self) -> None:
        """Close the client of a consumer that never ran. Harmless after `run`."""
        await self._fetcher.leave(self._settings.close_seconds)

    async def _close(self) -> None:
        """Leave the group first: whoever takes over fences us, so the leases need no care."""
        seconds = self._settings.close_seconds / 3
        await self._fetcher.leave(seconds)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._owner.close()
        self._outcomes.close()
