"""One GPU consumer of the model, put together without a client."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from random import Random
from typing import Any, cast

from gpu_consumer import results
from gpu_consumer.backlog import Backlog, Job
from gpu_consumer.index import Index
from gpu_consumer.metrics import GpuMetrics
from gpu_consumer.outcomes import Outcomes
from gpu_consumer.owner import Owner
from gpu_consumer.running.runner import Runner
from gpu_consumer.scheduling.scheduler import Scheduler
from gpu_consumer.settings import GpuConsumerSettings
from gpu_consumer.settle import Settler
from gpu_consumer.spending import Spending
from gpu_consumer.traces import JobTraces
from streams.kafka.errors import LeaseVoid
from streams.kafka.settings import KafkaSettings
from streams.tracing import OFF
from tests.kafka import POOL
from tests.property.pool_model.broker import ModelLease, ModelOutcomes
from tests.property.pool_model.clock import LoopClock
from tests.property.pool_model.engine import SteppedEngine
from tests.property.pool_model.world import LANE, World
from tests.unit.gpu_consumer.work import job_of

KAFKA = KafkaSettings(bootstrap_servers="127.0.0.1:1")
SESSION_SECONDS = 3.0  # after which the group drops a member that was killed


class Member:
    """One consumer: as gpu_consumer.consumer puts it together, without a client."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.owned: set[int] = set()
        self.generation = self.pending = 0
        self.dead = self.closing = False
        self.handed_back: set[int] = set()
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._taking = True
        self._cancelled: set[bytes | None] = set()
        clock, metrics, traces = LoopClock(), GpuMetrics(), JobTraces(OFF, LoopClock(), POOL)
        self.settings = GpuConsumerSettings(
            pool=POOL, batch_wait_seconds=0.1, affinity_wait_seconds=1, mark_poll_seconds=0.5, grace_seconds=8,
            close_seconds=3, hand_over_seconds=world.hand_over_seconds, restarts_per_hour_max=1000, run_ahead_max=64,
            backlog_max=24,
        )  # fmt: skip
        self.engine = SteppedEngine(self, Random(world.random.random()))
        self.backlog = Backlog(Scheduler(self.settings.batch_wait_seconds, affinity_wait_seconds=1))
        outcomes = cast("Outcomes", ModelOutcomes(world))
        spending = Spending(metrics, clock, POOL, world.catalogue.pools[POOL], None)
        self.settler = Settler(
            self.settings, world.catalogue, self.backlog, outcomes, metrics, clock, spending.price, traces,
            incarnation=name, spawn=self.spawn, on_void=self._void,
            cancelled=lambda job: "" if job.name in self._cancelled else None,
        )  # fmt: skip
        self.runner = Runner(
            self.settings, self.engine, self.backlog, self.settler, outcomes, metrics, clock, spending, traces,
            incarnation=name,
        )  # fmt: skip
        self.owner = Owner(
            KAFKA, metrics, clock, make=self._make, is_live_member=self._is_live_member, open_seconds_max=1e6,
            hand_over_seconds=world.hand_over_seconds, spawn=self.spawn, adopted=lambda _: None,
            lost=self.settler.drop, hand_over=self.runner.hand_over,
        )  # fmt: skip

    def job(self, job_id: str) -> Job | None:
        return self.backlog.jobs.get(job_id)

    async def start(self) -> None:
        self.settler.environment = results.environment(await self.engine.start())
        self._running = self.spawn(self.runner.run())
        for loop in (self._take, self._expire):
            self.spawn(loop())

    def assigned(self, generation: int, numbers: set[int], moved: set[int]) -> None:
        if not self.dead and not self.closing and generation > self.generation:
            self.generation = generation
            self.owner.assign(numbers, moved)

    def cancel(self, name: bytes) -> None:
        self._cancelled.add(name)
        for job in self.backlog.named(name):
            self.settler.cancel(job)

    def spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        if self.dead:
            work.close()
        task = asyncio.get_running_loop().create_task(_nothing() if self.dead else work)
        self._tasks[task] = None
        task.add_done_callback(self._ended)
        return task

    async def kill(self) -> None:
        self._end()
        await asyncio.sleep(SESSION_SECONDS)
        self.world.leave(self)

    async def drain(self) -> None:
        """As gpu_consumer.consumer does."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.settings.grace_seconds - self.settings.close_seconds
        self._taking = False
        self.runner.stop()
        await asyncio.wait({self._running}, timeout=deadline - loop.time())
        while self.backlog.count("settling") and loop.time() < deadline and not self.dead:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        self.runner.give_up()
        self.closing = True
        with suppress(TimeoutError):
            async with asyncio.timeout(self.settings.close_seconds / 3):
                await asyncio.gather(*(self.settler.hand_back(index) for index in self.owner.open))
            self.handed_back = {index.number for index in self.owner.open}
        await self.world.latency()
        self._end()
        self.world.leave(self)

    def _end(self) -> None:
        self.dead = True
        self.engine.die()
        for task in list(self._tasks):
            task.cancel()

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.world.bugs.append(error)

    def _make(self, number: int) -> Index:
        index = Index(KAFKA, self.world.catalogue, POOL, number)
        cast("Any", index)._lease = ModelLease(self.world, self, number)
        return index

    def _void(self, index: Index, error: LeaseVoid) -> None:
        self.owner.void(index, error)

    async def _is_live_member(self) -> bool:
        await self.world.latency(0.02)
        return not self.dead and self.name in self.world.members and self.generation == self.pending

    async def _take(self) -> None:
        while True:
            for index in list(self.owner.open):
                self._take_of(index)
            await asyncio.sleep(0.1)

    def _take_of(self, index: Index) -> None:
        records = self.world.work[index.number]
        jobs: list[Job] = []
        while (
            self._taking
            and (offset := index.next(LANE)) < len(records)
            and index.room(LANE, self.settings.run_ahead_max)
            and len(jobs) < self.settings.backlog_max - self.backlog.pictures(LANE)
        ):
            if index.advance(LANE, offset):
                jobs.append(job_of(records[offset], index, offset))
                jobs[-1].deadline = LoopClock().steady_of(jobs[-1].work.deadline_ms)
        self.settler.admit(jobs)

    async def _expire(self) -> None:
        while True:
            for job_id in self.backlog.scheduler.expired(LoopClock().steady()):
                self.settler.due(job_id)
            await asyncio.sleep(0.1)


async def _nothing() -> None:
    """A member that is dead does nothing."""
