"""A view of a compacted topic, and reading a log, over a real broker."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import NewPartitions, NewTopic, RecordsToDelete
from aiokafka.consumer.fetcher import Fetcher
from aiokafka.errors import StaleMetadata

from streams.kafka.clients import admin_client, idempotent_producer, log_consumer
from streams.kafka.errors import LogTruncated, LogUnavailable, ViewFailed
from streams.kafka.log import Record, bounds, poll, read_log
from streams.kafka.settings import KafkaSettings
from streams.kafka.view import CompactedView
from tests.contract.leased import PATIENCE_SECONDS, create, nothing_left, raw_producer, until, write


class Viewed:
    """A topic, one who writes it, and what a view of it has folded."""

    def __init__(self, kafka: KafkaSettings, producer: AIOKafkaProducer, topic: str) -> None:
        self.kafka = kafka
        self.producer = producer
        self.topic = topic
        self.folded: list[tuple[bytes, bytes | None]] = []
        self.view = CompactedView(kafka, topic, self.fold)

    def fold(self, record: Record) -> None:
        if record.value == b"poison":
            raise ValueError("this record is poison")
        self.folded.append((record.key or b"", record.value))

    def is_ready(self) -> bool:
        return self.view.ready

    async def write(self, key: bytes, value: bytes | None, partition: int = 0) -> None:
        await self.producer.send_and_wait(self.topic, value, key=key, partition=partition)

    async def folds(self, *expected: tuple[bytes, bytes | None]) -> None:
        async def all_there() -> bool:
            assert self.view.failure is None
            return len(self.folded) >= len(expected)

        await until(all_there)
        assert sorted(self.folded, key=repr) == sorted(expected, key=repr)


@asynccontextmanager
async def viewed(kafka: KafkaSettings, topic: str) -> AsyncIterator[Viewed]:
    producer = idempotent_producer(kafka)
    await producer.start()
    try:
        with nothing_left():
            place = Viewed(kafka, producer, topic)
            yield place
            await place.view.stop()
    finally:
        await producer.stop()


@pytest.fixture
async def place(kafka: KafkaSettings, prefix: str) -> AsyncIterator[Viewed]:
    quick = kafka.model_copy(update={"metadata_max_age_ms": 500})
    await create(kafka, NewTopic(f"{prefix}.control", 1, 1))
    async with viewed(quick, f"{prefix}.control") as place:
        yield place


async def test_a_view_is_ready_at_the_end_seen_at_its_start_and_follows(place: Viewed, prefix: str) -> None:
    await place.write(b"a", b"1")
    await place.write(b"a", None)
    async with raw_producer(place.kafka, prefix) as producer:
        await write(producer, TopicPartition(place.topic, 0), ["committed"], commit=True)
        await write(producer, TopicPartition(place.topic, 0), ["aborted"], commit=False)
    assert not place.is_ready()
    await place.view.start()
    await place.view.wait_ready(PATIENCE_SECONDS)
    before = [(b"a", b"1"), (b"a", None), (b"", b"committed")]
    assert place.folded == before
    assert place.is_ready()
    await place.write(b"b", b"2")
    await place.folds(*before, (b"b", b"2"))
    await place.view.stop()
    assert not place.is_ready()
    await place.write(b"c", b"3")
    assert len(place.folded) == 4


async def test_an_empty_topic_is_a_complete_view(place: Viewed) -> None:
    await place.view.start()
    await place.view.wait_ready(PATIENCE_SECONDS)
    assert place.folded == []

    async def fresh() -> bool:
        return place.view.age_seconds < 1

    await until(fresh)


async def test_a_topic_that_is_not_there_yet_is_waited_for(kafka: KafkaSettings, prefix: str) -> None:
    impatient = kafka.model_copy(update={"request_timeout_ms": 1_000, "backoff_most_ms": 100})
    async with viewed(impatient, f"{prefix}.late") as place:
        await place.view.start()
        with pytest.raises(TimeoutError, match="was not read to its end"):
            await place.view.wait_ready(0.2)
        assert not place.is_ready()
        assert place.view.failure is None
        await create(kafka, NewTopic(place.topic, 1, 1))
        await place.view.wait_ready(PATIENCE_SECONDS)


async def test_a_fold_that_raises_fails_the_view_aloud(place: Viewed) -> None:
    await place.view.start()
    await place.view.wait_ready(PATIENCE_SECONDS)
    await place.write(b"a", b"poison")
    await place.write(b"b", b"never folded")

    async def failed() -> bool:
        return place.view.failure is not None

    await until(failed)
    assert not place.is_ready()
    with pytest.raises(ViewFailed, match="this record is poison"):
        await place.view.wait_ready(PATIENCE_SECONDS)
    assert place.folded == []


async def test_a_new_partition_is_followed_from_its_start(place: Viewed) -> None:
    await place.write(b"a", b"1")
    await place.view.start()
    await place.view.wait_ready(PATIENCE_SECONDS)
    admin = admin_client(place.kafka)
    await admin.start()
    try:
        await admin.create_partitions({place.topic: NewPartitions(2)})
    finally:
        await admin.close()

    async def known() -> bool:
        await place.producer.client.force_metadata_update()
        return len(await place.producer.partitions_for(place.topic)) == 2

    await until(known)
    await place.write(b"b", b"2", partition=1)
    await place.folds((b"a", b"1"), (b"b", b"2"))


async def test_trouble_makes_a_view_old_and_nothing_is_folded_twice_or_missed(
    place: Viewed, monkeypatch: pytest.MonkeyPatch
) -> None:
    trouble = asyncio.Event()
    refused = 0

    async def troubled(consumer: AIOKafkaConsumer, timeout_ms: int) -> Any:
        nonlocal refused
        if trouble.is_set():
            refused += 1
            raise LogUnavailable("the broker is away")
        return await poll(consumer, timeout_ms)

    monkeypatch.setattr("streams.kafka.view.poll", troubled)
    await place.write(b"a", b"1")
    await place.view.start()
    await place.view.wait_ready(PATIENCE_SECONDS)
    trouble.set()
    await place.write(b"b", b"2")

    async def tried_again() -> bool:
        return refused >= 3 and place.view.age_seconds > 0.2

    await until(tried_again)
    assert place.is_ready()  # complete, and old: how old is too old is not for the view to say
    trouble.clear()
    await place.folds((b"a", b"1"), (b"b", b"2"))


async def test_a_reader_whose_fetching_died_in_silence_is_replaced(
    kafka: KafkaSettings, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case AIO-04: the consumer lives, its heartbeats would be fine, and no record ever comes again."""
    consumers: list[AIOKafkaConsumer] = []

    def kept(*given: Any, **named: Any) -> AIOKafkaConsumer:
        consumers.append(log_consumer(*given, **named))
        return consumers[-1]

    monkeypatch.setattr("streams.kafka.view.log_consumer", kept)
    impatient = kafka.model_copy(update={"stall_timeout_ms": 1_000})
    await create(kafka, NewTopic(f"{prefix}.control", 1, 1))
    async with viewed(impatient, f"{prefix}.control") as place:
        await place.view.start()
        await place.view.wait_ready(PATIENCE_SECONDS)
        consumers[0]._fetcher._fetch_task.cancel()
        await place.write(b"a", b"1")
        await place.folds((b"a", b"1"))  # perhaps by a fetch that was under way
        await place.write(b"b", b"2")
        await place.folds((b"a", b"1"), (b"b", b"2"))
        assert len(consumers) >= 2


async def collect(kafka: KafkaSettings, at: TopicPartition, **limits: Any) -> list[int]:
    async with aclosing(read_log(kafka, [at], **limits)) as records:
        return [record.offset async for record in records]


async def test_a_log_is_read_from_start_to_before_stop(place: Viewed) -> None:
    at = TopicPartition(place.topic, 0)
    for number in range(10):
        await place.write(b"k", str(number).encode())
    assert await collect(place.kafka, at) == list(range(10))
    assert await collect(place.kafka, at, start={at: 4}, stop={at: 7}) == [4, 5, 6]
    assert await collect(place.kafka, at, start={at: 10}) == []
    assert await collect(place.kafka, at, start={at: 7}, stop={at: 3}) == []


async def test_an_offset_that_a_log_does_not_hold_is_said_aloud(place: Viewed) -> None:
    at = TopicPartition(place.topic, 0)
    for number in range(10):
        await place.write(b"k", str(number).encode())
    admin = admin_client(place.kafka)
    await admin.start()
    try:
        await admin.delete_records({at: RecordsToDelete(before_offset=4)})
    finally:
        await admin.close()
    assert await collect(place.kafka, at) == [4, 5, 6, 7, 8, 9]
    with pytest.raises(LogTruncated, match="holds offsets 4 to 10, not 3") as refusal:
        await collect(place.kafka, at, start={at: 3})
    assert (refusal.value.partition, refusal.value.asked) == (at, 3)
    with pytest.raises(LogTruncated):
        await collect(place.kafka, at, start={at: 11})


async def test_a_stop_that_never_comes_is_a_stall(place: Viewed) -> None:
    at = TopicPartition(place.topic, 0)
    await place.write(b"k", b"1")
    with pytest.raises(LogUnavailable, match=r"gave no record for 0\.3 s"):
        await collect(place.kafka, at, stop={at: 2}, stall_seconds=0.3)


async def test_many_partitions_are_read_each_to_its_own_end(kafka: KafkaSettings, prefix: str) -> None:
    topic = f"{prefix}.log"
    await create(kafka, NewTopic(topic, 3, 1))
    async with viewed(kafka, topic) as place:
        await asyncio.gather(*(place.write(b"k", bytes(200_000), partition=2) for _ in range(100)))
        await place.write(b"k", b"1", partition=0)
        parts = [TopicPartition(topic, number) for number in range(3)]
        counts = dict.fromkeys(parts, 0)
        async with aclosing(read_log(kafka, parts)) as records:
            async for record in records:
                counts[TopicPartition(record.topic, record.partition)] += 1
        assert list(counts.values()) == [1, 0, 100]


async def test_the_partitions_of_many_topics_are_found_at_once(
    kafka: KafkaSettings, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client by itself finds one topic after the other, with a pause before each."""
    topics = [f"{prefix}.{letter}" for letter in "abc"]
    await create(kafka, *(NewTopic(topic, 2, 1) for topic in topics))
    failures: list[StaleMetadata] = []
    look = Fetcher._proc_offset_requests

    async def noted(fetcher: Fetcher, timestamps: dict[TopicPartition, int]) -> Any:
        try:
            return await look(fetcher, timestamps)
        except StaleMetadata as failure:
            failures.append(failure)
            raise

    monkeypatch.setattr(Fetcher, "_proc_offset_requests", noted)
    consumer = log_consumer(kafka)
    await consumer.start()
    try:
        first, end = await bounds(consumer, [TopicPartition(topic, n) for topic in topics for n in range(2)])
    finally:
        await consumer.stop()
    assert first == end == {TopicPartition(topic, n): 0 for topic in topics for n in range(2)}
    assert not failures


async def test_a_reader_that_is_left_early_is_closed(place: Viewed) -> None:
    at = TopicPartition(place.topic, 0)
    for number in range(3):
        await place.write(b"k", str(number).encode())
    async with aclosing(read_log(place.kafka, [at])) as records:
        async for record in records:
            assert record.offset == 0
            break
