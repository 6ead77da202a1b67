"""One case from its first request to its last result: real topics, real consumer processes, a real engine each."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import yaml

from schemas.config import GenerationConfig
from schemas.work import WorkItem
from streams.kafka.admin import create_topics
from streams.kafka.settings import KafkaSettings
from tests.fault.children import MARK, Child, marked
from tests.fault.gpu.cases import RESTARTS_MAX, Case
from tests.fault.gpu.faults import PLAN, Log, Plan
from tests.fault.gpu.requests import work_items
from tests.fault.gpu.verdict import Evidence
from tests.integration.gpu_pool import GpuPool
from tests.kafka import POOL, small_catalogue
from tests.ports import free_port

WATCHDOG_SECONDS = 4.0  # of an engine that says nothing; on a crowded machine a healthy one is silent for a second
RECOVERY_SECONDS_MAX = 60.0  # from an engine's death to the next one's work; mostly the import of torch
EXIT_SECONDS_MAX = 120.0  # until a consumer has given its card up: three starts of an engine
_TRIAL_SECONDS = 240.0
_STOP_SECONDS = 30.0  # a consumer's grace is 25
_LOOK_SECONDS = 0.05


class Trial:
    """`folder` keeps the plan, its log, the consumers' output and the store; `prefix` begins the topics' names."""

    def __init__(
        self,
        case: Case,
        kafka: KafkaSettings,
        models: Path,
        folder: Path,
        count: int,
        *,
        prefix: str = "gpu",
        watchdog_seconds: float = WATCHDOG_SECONDS,
    ) -> None:
        self._case = case
        self._kafka = kafka
        self._folder = folder
        self._count = count
        self._prefix = f"{prefix}-{case.name}-{uuid4().hex[:6]}"
        self._catalogue = small_catalogue(self._prefix)
        self._pool = GpuPool(kafka, self._catalogue, folder / "store")
        self._plan = folder / "plan.json"
        self._members: dict[str, Child] = {}
        self._environment = self._make_environment(models, watchdog_seconds)

    async def run(self, configs: Sequence[GenerationConfig]) -> Evidence:
        """Never raises for what a consumer does: what is missing at the end is missing in the evidence."""
        started = time.monotonic()
        self._folder.mkdir(parents=True)
        pools = {POOL: self._catalogue.pools[POOL].model_dump()}
        (self._folder / "pools.yaml").write_text(yaml.safe_dump({"pools": pools}), encoding="utf-8")
        plan = Plan(faults=tuple(self._case.faults), preload=tuple(configs), pace_seconds=self._case.pace_seconds)
        plan.write(self._plan)
        items = work_items(self._case.name, self._count, configs)
        statuses: dict[str, int | None] = {}
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(_TRIAL_SECONDS):
                    await create_topics(self._kafka, self._catalogue)
                    self._start("first")
                    if self._case.blow is not None:
                        self._start("second")
                        await self._both_ready()
                    await self._pool.produce(items)
                    await self._weather(plan, items, statuses)
                    await self._until_done(items)
            statuses |= await self._stop()
        finally:
            for member in self._members.values():
                member.destroy()
        return await self._evidence(items, statuses, time.monotonic() - started)

    def _make_environment(self, models: Path, watchdog_seconds: float) -> Mapping[str, str]:
        restarts = RESTARTS_MAX if self._case.exit_status is not None else 20
        return {
            **os.environ,
            MARK: self._prefix,
            PLAN: str(self._plan),
            "KAFKA_BOOTSTRAP_SERVERS": self._kafka.bootstrap_servers,
            "KAFKA_SESSION_TIMEOUT_MS": "6000",
            "KAFKA_HEARTBEAT_INTERVAL_MS": "500",
            "KILN_TOPICS_PREFIX": self._prefix,
            "KILN_TOPICS_REQUESTS_PARTITIONS": str(self._catalogue.requests_partitions),
            "KILN_POOLS": str(self._folder / "pools.yaml"),
            "KILN_STORE_URL": f"file://{self._folder / 'store'}",
            "KILN_GPU_POOL": POOL,
            "KILN_GPU_DEVICE": "cpu",
            "KILN_GPU_MODELS_DIR": str(models),
            "KILN_GPU_IDLE_SECONDS": "0.2",
            "KILN_GPU_MARK_SECONDS_MIN": "1",
            "KILN_GPU_RESTARTS_PER_HOUR_MAX": str(restarts),
            "KILN_GPU_ENGINE_WATCHDOG_SECONDS_MIN": str(watchdog_seconds),
            "PYTHONUNBUFFERED": "1",
        }

    def _start(self, name: str) -> Child:
        command = [sys.executable, "-m", "tests.fault.gpu.member"]
        port = free_port()
        environment = {**self._environment, "KILN_GPU_HEALTH_PORT": str(port)}
        self._members[name] = Child(name, command, environment, port, self._folder / f"{name}.log")
        self._members[name].start()
        return self._members[name]

    async def _both_ready(self) -> None:
        """Both consumers are members, with their leases open."""
        for member in self._members.values():
            await _until(lambda each=member: asyncio.to_thread(each.ready))  # type: ignore[misc]

    async def _weather(self, plan: Plan, items: Sequence[WorkItem], statuses: dict[str, int | None]) -> None:
        """What happens to the consumers themselves."""
        first = self._members["first"]
        if self._case.blow is not None:
            await _until(lambda: self._stored() >= len(items) // 4 and len(self._engines_at_work()) == 2)
            first.signal(signal.SIGKILL if self._case.blow == "kill" else signal.SIGTERM)
            status = await asyncio.to_thread(first.wait, _STOP_SECONDS)
            statuses["first"] = 0 if self._case.blow == "kill" and status == -signal.SIGKILL else status
        if self._case.exit_status is not None:
            statuses["first"] = await asyncio.to_thread(first.wait, EXIT_SECONDS_MAX)
            plan.model_copy(update={"faults": ()}).write(self._plan)
            self._start("second")

    async def _until_done(self, items: Sequence[WorkItem]) -> None:
        """All is published, or nobody is left to do it."""

        async def published() -> bool:
            return await self._pool.lag() == 0 or not self._anybody()

        await _until(lambda: self._stored() >= len(items) or not self._anybody())
        await _until(published)

    def _anybody(self) -> bool:
        return any(member.running for member in self._members.values())

    def _engines_at_work(self) -> set[int]:
        return {line.pid for line in Log(self._plan).read() if line.event == "work"}

    def _stored(self) -> int:
        return sum(1 for _ in (self._folder / "store").rglob("outcomes/*.json"))

    async def _stop(self) -> dict[str, int | None]:
        running = {name: member for name, member in self._members.items() if member.running}
        for member in running.values():
            member.signal(signal.SIGTERM)
        ended = await asyncio.gather(*(asyncio.to_thread(each.wait, _STOP_SECONDS) for each in running.values()))
        return dict(zip(running, ended, strict=True))

    async def _evidence(
        self, items: Sequence[WorkItem], statuses: Mapping[str, int | None], seconds: float
    ) -> Evidence:
        results = await self._pool.results()
        return Evidence(
            jobs=[item.job_id for item in items],
            results=results,
            log=Log(self._plan).read(),
            starts_due=len(self._members),
            lag=await self._pool.lag(),
            statuses=statuses,
            unlike_store=[result.job_id for result in results if not self._is_stored(result)],
            leftovers=marked(self._prefix),
            seconds=seconds,
            recovery_seconds_max=RECOVERY_SECONDS_MAX,
        )

    def _is_stored(self, result: object) -> bool:
        stored = self._pool.store.lookup(getattr(result, "job_id", ""))
        return stored is not None and stored.result == result


async def _until(condition: Callable[[], bool | Awaitable[bool]]) -> None:
    """Look again and again, until the trial's time is over."""
    while True:
        met = condition()
        if met if isinstance(met, bool) else await met:
            return
        await asyncio.sleep(_LOOK_SECONDS)
