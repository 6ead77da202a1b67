"""A runner and a settler over fakes: indexes that commit at once, a store in a folder, an engine that is told."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from gpu_consumer import results
from gpu_consumer.backlog import Backlog, Job
from gpu_consumer.metrics import GpuMetrics
from gpu_consumer.outcomes import Outcomes
from gpu_consumer.running.runner import Runner
from gpu_consumer.scheduling.scheduler import Scheduler
from gpu_consumer.settings import GpuConsumerSettings
from gpu_consumer.settle import Settler
from gpu_consumer.spending import Spending
from gpu_consumer.store.base import StoreSettings
from gpu_consumer.store.choice import open_store
from gpu_consumer.store.outcomes import OutcomeStore
from gpu_consumer.traces import JobTraces
from schemas.result import parse_result
from schemas.tenants import Quota, Tenants
from schemas.work import WorkItem
from streams.tracing import OFF, Tracing
from tests.kafka import POOL, small_catalogue
from tests.scripted import ScriptedEngine
from tests.unit.gpu_consumer.work import FakeIndex, FixedClock, job_of

ME = "me"


class Bench:
    """A runner and a settler over fakes."""

    def __init__(
        self, folder: Path, *, clock: FixedClock | None = None, tracing: Tracing = OFF, **settings: Any
    ) -> None:
        self.clock = clock or FixedClock()
        traces = JobTraces(tracing, self.clock, POOL)
        self.engine = ScriptedEngine()
        self.index = FakeIndex()
        self.metrics = GpuMetrics()
        self.lost: list[Any] = []
        self.cancelled: set[bytes | None] = set()
        self.paused_until: Callable[[], float | None] = lambda: None
        self.bugs: list[BaseException] = []
        values: dict[str, Any] = {"pool": "a", "batch_wait_seconds": 0, "claim_seconds": 0}
        values["affinity_wait_seconds"] = 0
        self.settings = GpuConsumerSettings(**(values | settings))
        self.store = OutcomeStore(open_store(f"file://{folder}", StoreSettings()))
        self.backlog = Backlog(
            Scheduler(
                self.settings.batch_wait_seconds,
                affinity_wait_seconds=self.settings.affinity_wait_seconds,
                look_ahead=self.settings.look_ahead,
            )
        )
        self._tasks: set[asyncio.Task[None]] = set()
        outcomes = Outcomes(self.store, self.settings, self.metrics)
        outcomes.on_answer = self.backlog.changed
        catalogue = small_catalogue("t")
        declared = Tenants(tenants={"red": Quota(per_second=1, burst=1)})
        self.spending = Spending(self.metrics, self.clock, POOL, catalogue.pools[POOL], declared)
        self.settler = Settler(
            self.settings, catalogue, self.backlog, outcomes, self.metrics, self.clock, self.spending.price, traces,
            incarnation=ME, spawn=self._spawn, on_void=lambda index, _: self.lose(index),
            cancelled=lambda job: "" if job.name in self.cancelled else None,
        )  # fmt: skip
        self.runner = Runner(
            self.settings, self.engine, self.backlog, self.settler, outcomes, self.metrics, self.clock, self.spending,
            traces,
            incarnation=ME, paused_until=self._pause_ends,
        )  # fmt: skip

    def _pause_ends(self) -> float | None:
        return self.paused_until()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.bugs.append(error)

    def lose(self, index: Any) -> None:
        """As an owner does whose lease is void."""
        self.lost.append(index)
        index.void = True
        self.settler.drop(index)

    async def move(self, *, fenced: bool = False) -> None:
        """As an owner does whose index goes to another consumer, which was quicker or not."""
        self.index.fenced = fenced
        self.lose(self.index)
        await self.runner.hand_over(self.index)  # type: ignore[arg-type]

    def expire(self) -> None:
        """As the consumer does when a deadline is over."""
        for job_id in self.backlog.scheduler.expired(self.clock.steady()):
            self.settler.due(job_id)

    async def idle(self) -> None:
        """Until nothing of ours is under way and nothing can run."""
        async with asyncio.timeout(60):
            while self._tasks or any(job.phase != "held" for job in self.backlog.jobs.values()):
                await asyncio.sleep(0.001)
                if self.running.done():
                    return
        self.backlog.scheduler.check_integrity()

    def take(self, *items: WorkItem, offset: int = 0) -> list[Job]:
        jobs = [job_of(item, self.index, offset + n) for n, item in enumerate(items)]
        self.settler.admit(jobs)
        return jobs

    async def start(self) -> None:
        self.settler.environment = results.environment(await self.engine.start())
        self.running = asyncio.create_task(self.runner.run())

    async def end(self) -> None:
        self.engine.gate.set()  # a test that failed must not hang
        self.runner.stop()
        await self.running
        assert self.bugs == []

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(60):
            while not condition():
                await asyncio.sleep(0.001)
                assert self.bugs == []
                if self.running.done():
                    self.running.result()

    def value(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(f"kiln_gpu_{name}", labels) or 0.0

    def results(self) -> dict[str, Any]:
        parsed = [parse_result(output.value) for output in self.index.outputs]
        assert len({result.request_id for result in parsed}) == len(parsed), "one result a job"
        return {result.request_id: result for result in parsed}
