"""One leased input partition over a real broker: its topics, its owners, and what a reader of it sees."""

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from typing import Any

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import NewTopic

from streams.kafka.admin import wait_led
from streams.kafka.clients import admin_client, group_consumer, transactional_producer
from streams.kafka.lease import Lease, Transaction
from streams.kafka.log import read_log
from streams.kafka.sending import Output
from streams.kafka.settings import KafkaSettings

PATIENCE_SECONDS = 180.0


async def create(kafka: KafkaSettings, *topics: NewTopic) -> None:
    """Returns when they are led: a member that meets one before that joins its group again afterwards."""
    admin = admin_client(kafka)
    await admin.start()
    try:
        await admin.create_topics(topics)
    finally:
        await admin.close()
    await wait_led(kafka, [topic.name for topic in topics])


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait for a condition of the broker. Fails after a deadline that only a fault reaches."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await condition():  # noqa: ASYNC110 — the broker's state has no event
            await asyncio.sleep(0.05)


@contextmanager
def nothing_left() -> Iterator[None]:
    """No task of ours outlives its owner, and asyncio has nothing to report."""
    reports: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    before = asyncio.all_tasks()
    loop.set_exception_handler(lambda _, context: reports.append(context))
    yield
    gc.collect()
    assert asyncio.all_tasks() - before - {asyncio.current_task()} == set()
    assert not reports


class Leased:
    """An input partition `source` whose owners write `log` and `out`."""

    def __init__(self, kafka: KafkaSettings, prefix: str) -> None:
        self.kafka = kafka
        self.source = TopicPartition(f"{prefix}.source", 0)
        self.log = TopicPartition(f"{prefix}.log", 0)
        self.out = TopicPartition(f"{prefix}.out", 0)
        self.small = TopicPartition(f"{prefix}.small", 0)
        self.transactional_id = f"{prefix}.service.0"
        self.group = f"{prefix}.service"
        self.leases: list[Lease] = []

    async def create(self) -> None:
        await create(
            self.kafka,
            NewTopic(self.source.topic, 1, 1),
            NewTopic(self.log.topic, 1, 1),
            NewTopic(self.out.topic, 1, 1),
            NewTopic(self.small.topic, 1, 1, topic_configs={"max.message.bytes": "1000"}),
        )

    def lease(self, kafka: KafkaSettings | None = None, *, transactional_id: str | None = None) -> Lease:
        lease = Lease(
            kafka or self.kafka,
            transactional_id=transactional_id or self.transactional_id,
            group=self.group,
            log=[self.log],
        )
        self.leases.append(lease)
        return lease

    async def owner(
        self, kafka: KafkaSettings | None = None, *, transactional_id: str | None = None
    ) -> tuple[Lease, list[bytes]]:
        """An open lease and what it folded."""
        lease = self.lease(kafka, transactional_id=transactional_id)
        seen: list[bytes] = []
        await lease.open(lambda record: seen.append(record.value or b""))
        return lease, seen

    def step(self, name: str, next_offset: int | None = None) -> Transaction:
        """One decision: logged, put out, and the source read up to before `next_offset`."""
        outputs = [Output(at.topic, at.partition, None, name.encode()) for at in (self.log, self.out)]
        return Transaction(outputs, {} if next_offset is None else {self.source: next_offset})

    async def visible(self, at: TopicPartition | None = None) -> list[bytes]:
        """What a read_committed reader sees, up to the end of what is decided."""
        async with aclosing(read_log(self.kafka, [at or self.out])) as records:
            return [record.value or b"" async for record in records]

    async def becomes_visible(self, *values: bytes) -> None:
        """Wait until a reader sees exactly these. A commit returns before its markers stand in the partitions."""

        async def all_there() -> bool:
            return len(await self.visible()) >= len(values)

        await until(all_there)
        assert await self.visible() == list(values)

    async def offset(self) -> int | None:
        """The group's offset, perhaps a stale one."""
        consumer = group_consumer(self.kafka, self.group)
        await consumer.start()
        try:
            offset: int | None = await consumer.committed(self.source)
            return offset
        finally:
            await consumer.stop()

    async def offset_becomes(self, offset: int) -> None:
        async def arrived() -> bool:
            return await self.offset() == offset

        await until(arrived)

    async def last_stable_offset(self) -> int:
        consumer = group_consumer(self.kafka, self.group)
        await consumer.start()
        try:
            end: int = (await consumer.end_offsets([self.out]))[self.out]
            return end
        finally:
            await consumer.stop()


@asynccontextmanager
async def leased(kafka: KafkaSettings, prefix: str) -> AsyncIterator[Leased]:
    place = Leased(kafka, prefix)
    await place.create()
    with nothing_left():
        yield place
        for lease in place.leases:
            await lease.close()


class Gate:
    """Holds a method of a lease's producer: says when it was reached, and lets it go on when opened."""

    def __init__(self, lease: Lease, method: str) -> None:
        self.reached = asyncio.Event()
        self._go = asyncio.Event()
        producer = lease._producer
        original = getattr(producer, method)

        async def held(*given: Any, **named: Any) -> Any:
            self.reached.set()
            await self._go.wait()
            return await original(*given, **named)

        setattr(producer, method, held)

    def open(self) -> None:
        self._go.set()


async def die(producer: AIOKafkaProducer) -> None:
    """What SIGKILL does to a producer, as the broker sees it: its connections end, in the middle of anything."""
    for connection in list(producer.client._conns.values()):
        connection.close()
    producer._sender.sender_task.cancel()
    producer.client._get_conn = _unreachable


async def _unreachable(*_: Any, **__: Any) -> None:
    return None


@asynccontextmanager
async def raw_producer(kafka: KafkaSettings, transactional_id: str) -> AsyncIterator[AIOKafkaProducer]:
    """A producer by hand, for what a lease never does."""
    producer = transactional_producer(kafka, transactional_id)
    await producer.start()
    try:
        yield producer
    finally:
        await producer.stop()


async def write(producer: AIOKafkaProducer, at: TopicPartition, names: Iterable[str], *, commit: bool) -> None:
    """One transaction by hand, committed or aborted."""
    await producer.begin_transaction()
    for name in names:
        await producer.send_and_wait(at.topic, name.encode(), partition=at.partition)
    await (producer.commit_transaction() if commit else producer.abort_transaction())
