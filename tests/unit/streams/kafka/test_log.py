"""Reading a log where the client does what a healthy broker rarely makes it do."""

from collections.abc import Sequence
from contextlib import aclosing
from typing import Any
from unittest.mock import Mock

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import CorruptRecordException, KafkaError, OffsetOutOfRangeError, RecordTooLargeError
from aiokafka.structs import ConsumerRecord

from streams.kafka.errors import LogTruncated, LogUnavailable, RecordUnreadable
from streams.kafka.log import read_log
from streams.kafka.settings import KafkaSettings

KAFKA = KafkaSettings(bootstrap_servers="127.0.0.1:9")
AT = TopicPartition("log", 0)
Step = Sequence[int] | int | Exception


class ScriptedConsumer:
    """Each poll takes one step: offsets of records, a new position without any, or an error."""

    def __init__(self, steps: Sequence[Step], end: int, first: int = 0) -> None:
        self.steps = list(steps)
        self.first = first
        self.end = end
        self.at = -1
        self.stopped = False
        self._client = Mock()

    async def start(self) -> None: ...

    async def stop(self) -> None:
        self.stopped = True

    async def beginning_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, self.first)

    async def end_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, self.end)

    def assign(self, _: Sequence[TopicPartition]) -> None: ...

    def pause(self, *_: TopicPartition) -> None: ...

    def seek(self, _: TopicPartition, offset: int) -> None:
        self.at = offset

    async def position(self, _: TopicPartition) -> int:
        return self.at

    async def getmany(self, *, timeout_ms: int) -> dict[TopicPartition, list[Any]]:
        assert timeout_ms >= 0
        if not self.steps:
            return {}
        step = self.steps.pop(0)
        if isinstance(step, Exception):
            raise step
        if isinstance(step, int):
            self.at = step
            return {}
        self.at = step[-1] + 1
        return {AT: [record(offset) for offset in step]}


def record(offset: int) -> Any:
    return ConsumerRecord(AT.topic, AT.partition, offset, 0, 0, b"", b"", None, 0, 0, ())


async def offsets(monkeypatch: pytest.MonkeyPatch, consumer: ScriptedConsumer, **limits: Any) -> list[int]:
    monkeypatch.setattr("streams.kafka.log.log_consumer", lambda _: consumer)
    found: list[int] = []
    try:
        async with aclosing(read_log(KAFKA, [AT], **limits)) as records:
            found += [record.offset async for record in records]
    finally:
        assert consumer.stopped
    return found


async def test_an_empty_fetch_is_not_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = ScriptedConsumer([[0, 1], 2, 2, 7, [8], 9, 10], end=10)
    assert await offsets(monkeypatch, consumer) == [0, 1, 8]


async def test_records_beyond_the_end_are_not_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = ScriptedConsumer([[0, 1, 2, 3]], end=2)
    assert await offsets(monkeypatch, consumer) == [0, 1]


def too_large(offset: int) -> RecordTooLargeError:
    return RecordTooLargeError("There are some messages at %s=%s", AT, offset, 8 << 20)


async def test_a_record_that_cannot_be_fetched_is_not_stepped_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Case AIO-26: the client has moved its position beyond the record, and raises at the next poll."""
    consumer = ScriptedConsumer([[0], 2, too_large(1)], end=5)
    with pytest.raises(RecordUnreadable, match=r"log\[0\] offset 1 cannot be read") as refusal:
        await offsets(monkeypatch, consumer)
    assert (refusal.value.partition, refusal.value.offset) == (AT, 1)


async def test_nor_where_it_is_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Case AIO-26: the position alone says that the end is reached."""
    consumer = ScriptedConsumer([[0], 2, too_large(1)], end=2)
    with pytest.raises(RecordUnreadable):
        await offsets(monkeypatch, consumer)


async def test_records_that_vanish_while_they_are_read_are_missed_aloud(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = ScriptedConsumer([[0], OffsetOutOfRangeError({AT: 1})], end=5)
    with pytest.raises(LogTruncated, match="not 1"):
        await offsets(monkeypatch, consumer)


@pytest.mark.parametrize("error", [CorruptRecordException("crc"), KafkaError("any"), OffsetOutOfRangeError])
async def test_any_other_error_ends_the_reading(monkeypatch: pytest.MonkeyPatch, error: Any) -> None:
    error = OffsetOutOfRangeError({AT: 9}) if error is OffsetOutOfRangeError else error
    consumer = ScriptedConsumer([[0], error, [1, 2]], end=3)
    with pytest.raises((LogUnavailable, LogTruncated)):
        await offsets(monkeypatch, consumer)


async def test_no_progress_is_an_error_and_slow_progress_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LogUnavailable, match="gave no record"):
        await offsets(monkeypatch, ScriptedConsumer([[0], 1], end=5), stall_seconds=0)


@pytest.mark.parametrize("start", [3, 11])
async def test_a_start_out_of_range_is_refused(monkeypatch: pytest.MonkeyPatch, start: int) -> None:
    consumer = ScriptedConsumer([], end=10, first=4)
    with pytest.raises(LogTruncated, match=f"holds offsets 4 to 10, not {start}"):
        await offsets(monkeypatch, consumer, start={AT: start})


async def test_no_broker_is_unavailable_not_empty() -> None:
    with pytest.raises(LogUnavailable, match="no broker answers"):
        async with aclosing(read_log(KAFKA, [AT])) as records:
            await anext(records)
