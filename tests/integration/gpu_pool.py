"""A pool of GPU consumers over a real broker, as tests see it: work goes in, results and outcomes come out."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Generic, TypeVar
from uuid import NAMESPACE_URL, uuid5

from aiokafka import AIOKafkaConsumer, TopicPartition

from gpu_consumer import results
from gpu_consumer.clock import Clock
from gpu_consumer.consumer import GpuConsumer
from gpu_consumer.engine import protocol
from gpu_consumer.engine.protocol import DeviceInfo, Ready
from gpu_consumer.ledger import Ledger
from gpu_consumer.metrics import GpuMetrics
from gpu_consumer.settings import GpuConsumerSettings
from gpu_consumer.store.base import StoreSettings
from gpu_consumer.store.choice import open_store
from gpu_consumer.store.outcomes import OutcomeStore
from gpu_consumer.telling_steps import telling_steps
from schemas.codec import encode
from schemas.config import GenerationConfig
from schemas.cost import Price
from schemas.names import request_name
from schemas.outcome import Outcome, WorkRecord
from schemas.progress import decode_progress
from schemas.request import LANES, Lane
from schemas.result import parse_result
from schemas.topics import Catalogue
from schemas.work import WorkItem
from streams.kafka.clients import idempotent_producer
from streams.kafka.lag import group_lag
from streams.kafka.log import Record, read_log
from streams.kafka.settings import KafkaSettings
from streams.tracing import OFF, Tracing
from tests.kafka import POOL
from tests.scripted import ScriptedEngine

PATIENCE_SECONDS = 300.0
E = TypeVar("E", bound=protocol.Engine)


async def eventually(condition: Callable[[], bool | Awaitable[bool]], what: str) -> None:
    """Wait until it is so. Fails with `what` after a generous deadline."""
    deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
    while True:
        met = condition()
        if met if isinstance(met, bool) else await met:
            return
        assert asyncio.get_running_loop().time() < deadline, f"never: {what}"
        await asyncio.sleep(0.02)


def config(**changes: Any) -> GenerationConfig:
    values: dict[str, Any] = {
        "name": "sketch", "version": 1, "family": "sd15", "steps": 4, "guidance_scale": 5.0, "width": 64, "height": 64,
        "bucket": 4, "pool": POOL, "model": {"name": "tiny", "digest": "sha256:" + "0" * 64},
        "price": {"gpu_seconds": 0.2, "vram_bytes": 1 << 20},
    }  # fmt: skip
    return GenerationConfig.model_validate(values | changes)


def work_item(name: str, **changes: Any) -> WorkItem:
    now = datetime.now(UTC)
    made = changes.pop("config", config())
    values: dict[str, Any] = {
        "job_id": str(uuid5(NAMESPACE_URL, name)), "tenant": "blue", "request_id": name, "prompt": f"a {name}",
        "config": made, "config_hash": made.config_hash, "seed": 7, "images": 1, "lane": "standard",
        "deadline": now + timedelta(hours=1), "results_partition": 1, "price_gpu_seconds": 0.2, "accepted_at": now,
    }  # fmt: skip
    return WorkItem(**(values | changes))


class Hurried(Clock):
    """A clock that a test moves on."""

    def __init__(self) -> None:
        self.ahead_seconds = 0

    def steady(self) -> float:
        return super().steady() + self.ahead_seconds

    def wall_ms(self) -> int:
        return super().wall_ms() + 1000 * self.ahead_seconds


@dataclass
class Running(Generic[E]):
    """A consumer at work."""

    consumer: GpuConsumer
    engine: E
    metrics: GpuMetrics
    stop: asyncio.Event
    task: asyncio.Task[None]
    clock: Hurried

    def count(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(f"kiln_gpu_{name}", labels) or 0.0

    def later(self, seconds: int) -> None:
        """So much time passes for it, at once. The broker and the group hear nothing of that."""
        self.clock.ahead_seconds += seconds
        self.consumer._backlog.changed()

    async def looked(self) -> None:
        """Wait until it has looked whether anything moves, from its beginning to its end, or has ended."""
        watch, begun = self.consumer._watch, 0
        look = watch._count

        def counted(ends: dict[TopicPartition, int]) -> None:
            nonlocal begun
            begun += 1
            look(ends)

        watch._count = counted  # type: ignore[method-assign]
        await eventually(lambda: begun > 1 or self.task.done(), "a whole look")
        watch._count = look  # type: ignore[method-assign]

    async def drain(self) -> None:
        self.stop.set()
        await self.task


class GpuPool:
    def __init__(self, kafka: KafkaSettings, catalogue: Catalogue, folder: Path) -> None:
        self.kafka = kafka
        self.catalogue = catalogue
        settings = StoreSettings(url=f"file://{folder}")
        self.store = OutcomeStore(open_store(settings.url, settings))

    def work(self, lane: Lane = "standard") -> str:
        return self.catalogue.work(POOL, lane)

    async def produce(self, items: Iterable[WorkItem], partition: int | None = None) -> None:
        """As admission does. Without a partition they are spread over all."""
        records = [
            (self.work(item.lane), n % 4 if partition is None else partition, item.job_id.encode(), encode(item), item)
            for n, item in enumerate(items)
        ]
        await self.produce_raw([(*record[:4], record[4].headers()) for record in records])

    async def produce_raw(
        self, records: Iterable[tuple[str, int, bytes | None, bytes | None, tuple[tuple[str, bytes], ...]]]
    ) -> None:
        producer = idempotent_producer(self.kafka)
        await producer.start()
        try:
            sent = [
                await producer.send(topic, value, key=key, partition=partition, headers=list(headers))
                for topic, partition, key, value, headers in records
            ]
            await asyncio.gather(*sent)
        finally:
            await producer.stop()

    async def cancel(self, *items: WorkItem) -> None:
        """As a client does."""
        names = [request_name(item.tenant, item.request_id) for item in items]
        await self.produce_raw([(self.catalogue.cancels, 0, name, b"{}", ()) for name in names])

    @asynccontextmanager
    async def consumer(
        self,
        engine: ScriptedEngine | None = None,
        *,
        store: OutcomeStore | None = None,
        tracing: Tracing = OFF,
        **settings: Any,
    ) -> AsyncIterator[Running[ScriptedEngine]]:
        """Starts it, and drains it in the end if the test did not."""
        made = engine or ScriptedEngine()
        async with self.consumer_over(made, await made.start(), store=store, tracing=tracing, **settings) as running:
            try:
                yield running
            finally:
                made.gate.set()
        await made.stop()

    @asynccontextmanager
    async def consumer_over(
        self, engine: E, ready: Ready, *, store: OutcomeStore | None = None, tracing: Tracing = OFF, **settings: Any
    ) -> AsyncIterator[Running[E]]:
        """The same with any engine that has started; it is not stopped."""
        metrics, stop, clock = GpuMetrics(), asyncio.Event(), Hurried()
        values: dict[str, Any] = {"pool": POOL, "engine": "instant", "batch_wait_seconds": 0.02, "poll_seconds": 0.05}
        values |= {"idle_seconds": 0.2, "grace_seconds": 15, "close_seconds": 3, "mark_seconds_min": 2}
        made = GpuConsumer(
            GpuConsumerSettings(**(values | settings)),
            self.kafka, self.catalogue, engine, store or self.store, metrics, clock=clock, tracing=tracing,
        )  # fmt: skip
        running = Running(made, engine, metrics, stop, asyncio.create_task(made.run(ready, stop)), clock)
        try:
            yield running
        finally:
            if not running.task.done():
                await running.drain()

    async def read(self, topic: str, partitions: int) -> list[Record]:
        places = [TopicPartition(topic, n) for n in range(partitions)]
        async with aclosing(read_log(self.kafka, places)) as records:
            return [record async for record in records]

    async def results(self) -> list[Any]:
        """Every result that a read_committed reader sees now."""
        return [
            parse_result(record.value or b"")
            for record in await self.read(self.catalogue.results, self.catalogue.requests_partitions)
        ]

    async def read_decided(self, topic: str, partitions: int) -> list[Record]:
        """The same when nobody writes any more: a commit returns before its markers stand in the partitions."""
        places = [TopicPartition(topic, n) for n in range(partitions)]

        async def none_open() -> bool:
            written, decided = [await self._ends(places, f"read_{kind}") for kind in ("uncommitted", "committed")]
            return written == decided

        await eventually(none_open, f"every transaction in {topic} is decided")
        return await self.read(topic, partitions)

    async def _ends(self, places: list[TopicPartition], isolation: str) -> dict[TopicPartition, int]:
        reader = AIOKafkaConsumer(**self.kafka.client_options(), isolation_level=isolation)
        await reader.start()
        try:
            return dict(await reader.end_offsets(places))
        finally:
            await reader.stop()

    async def wait_for_results(self, count: int) -> list[Any]:
        found: list[Any] = []

        async def enough() -> bool:
            found[:] = await self.results()
            return len(found) >= count

        await eventually(enough, f"{count} results, only {len(found)} came")
        return found

    def telling_steps(self, running: Running[Any]) -> AbstractAsyncContextManager[None]:
        """As its service does, but more often."""
        return telling_steps(self.kafka, self.catalogue, running.consumer.steps, running.metrics, period_seconds=0.05)

    async def wait_for_progress(self, request_id: str, state: str, step: int) -> None:
        async def told() -> bool:
            records = await self.read(self.catalogue.progress, self.catalogue.requests_partitions)
            events = [decode_progress(record.value or b"") for record in records]
            return any((each.request_id, each.state, each.step) == (request_id, state, step) for each in events)

        await eventually(told, f"{request_id} is {state} {step}")

    async def lag(self) -> int:
        group = self.catalogue.gpu_group(POOL)
        return sum((await group_lag(self.kafka, group, [self.work(lane) for lane in LANES])).values())

    async def wait_until_done(self) -> None:
        async def done() -> bool:
            return await self.lag() == 0

        await eventually(done, "lag 0")


def foreign_outcome(pool: GpuPool, item: WorkItem, offset: int) -> Outcome:
    """How another consumer may have ended the record at this offset of partition 0: as no engine here would."""
    ran_on = results.environment(Ready(DeviceInfo("another card", "", 0), {}))
    price = Price(POOL, 0.0)
    result = results.failed(item, "blank_output", "stored by another", results.Run(), ran_on, price, datetime.now(UTC))
    record = WorkRecord(topic=pool.work(item.lane), partition=0, offset=offset)
    return Outcome(job_id=item.job_id, record=record, results_partition=item.results_partition, result=result)


async def ledger_of(pool: GpuPool, partition: int, lane: str = "standard") -> Ledger:
    records = await pool.read_decided(pool.catalogue.ledger(POOL), 4)
    mine = [record.value for record in records if record.partition == partition and record.key == lane.encode()]
    return Ledger.decode(mine[-1] or b"")
