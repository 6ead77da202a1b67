"""Where to begin in a long log of which only the end is needed, over a real broker."""

from contextlib import aclosing

import pytest
from aiokafka import TopicPartition
from aiokafka.admin import NewTopic, RecordsToDelete

from streams.kafka import bisect
from streams.kafka.bisect import first_needed
from streams.kafka.clients import admin_client
from streams.kafka.errors import LogUnavailable
from streams.kafka.log import Record, read_log
from streams.kafka.settings import KafkaSettings
from tests.contract.leased import create, leased, nothing_left, raw_producer, write

MANY = 400


def number(record: Record) -> int:
    return int(record.value or b"-1")


@pytest.fixture
async def numbers(kafka: KafkaSettings, prefix: str, monkeypatch: pytest.MonkeyPatch) -> TopicPartition:
    """0, 1, 2 ... in transactions of ten, with aborted ones between, and at the end nothing but those."""
    monkeypatch.setattr(bisect, "_NEAR_ENOUGH", 3)
    at = TopicPartition(f"{prefix}.log", 0)
    await create(kafka, NewTopic(at.topic, 1, 1))
    async with raw_producer(kafka, prefix) as producer:
        for start in range(0, MANY, 10):
            await producer.begin_transaction()
            for each in range(start, start + 10):
                await producer.send(at.topic, str(each).encode(), partition=0)
            await producer.commit_transaction()
            if start % 50 == 0:
                await write(producer, at, ["7777"] * 3, commit=False)
        for _ in range(5):
            await write(producer, at, ["8888"] * 3, commit=False)
    return at


async def read_from(kafka: KafkaSettings, at: TopicPartition, start: int) -> list[int]:
    async with aclosing(read_log(kafka, [at], start={at: start})) as records:
        return [number(record) async for record in records]


async def test_nothing_that_is_needed_is_left_out_and_little_else_is_read(
    kafka: KafkaSettings, numbers: TopicPartition
) -> None:
    with nothing_left():
        for needed in (0, 1, 9, 10, 199, 333, MANY - 1, MANY):
            start = await first_needed(kafka, numbers, lambda record, needed=needed: number(record) < needed)  # type: ignore[misc]
            read = await read_from(kafka, numbers, start)
            assert [each for each in read if each >= needed] == list(range(needed, MANY))
            assert len(read) <= MANY - needed + 4


async def test_where_all_is_needed_one_record_is_looked_at(kafka: KafkaSettings, numbers: TopicPartition) -> None:
    seen: list[int] = []

    def unneeded(record: Record) -> bool:
        seen.append(number(record))
        return False

    assert await first_needed(kafka, numbers, unneeded) == 0
    assert seen == [0]


async def test_a_log_that_lost_its_beginning_is_begun_at_what_is_left(
    kafka: KafkaSettings, numbers: TopicPartition
) -> None:
    admin = admin_client(kafka)
    await admin.start()
    await admin.delete_records({numbers: RecordsToDelete(before_offset=200)})
    await admin.close()
    assert await first_needed(kafka, numbers, lambda _: False) == 200
    start = await first_needed(kafka, numbers, lambda record: number(record) < 300)
    assert (await read_from(kafka, numbers, start))[-100:] == list(range(300, MANY))


async def test_an_empty_log_and_one_that_is_missing(kafka: KafkaSettings, prefix: str) -> None:
    empty = TopicPartition(f"{prefix}.empty", 0)
    await create(kafka, NewTopic(empty.topic, 1, 1))
    assert await first_needed(kafka, empty, lambda _: True) == 0
    with pytest.raises(LogUnavailable):
        await first_needed(kafka.model_copy(update={"request_timeout_ms": 1000}), TopicPartition("no-such", 0), bool)


async def test_a_lease_folds_what_is_needed_of_its_log(kafka: KafkaSettings, prefix: str) -> None:
    async with leased(kafka, prefix) as place:
        lease, _ = await place.owner()
        for each in range(5):
            await lease.transact(lambda each=each: place.step(str(each)))  # type: ignore[misc]
        folded: list[int] = []
        successor = place.lease()
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(bisect, "_NEAR_ENOUGH", 0)
            await successor.open(lambda record: folded.append(number(record)), lambda record: number(record) < 3)
        assert folded == [3, 4]
