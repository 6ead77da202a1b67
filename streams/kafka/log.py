"""Reading a log of ours from one offset to another, without skipping anything in silence."""

import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import TypeAlias

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import CorruptRecordException, KafkaError, OffsetOutOfRangeError, RecordTooLargeError
from aiokafka.structs import ConsumerRecord

from schemas.errors import told
from streams.kafka.clients import log_consumer, look_up, stop_client
from streams.kafka.errors import LogTruncated, LogUnavailable, RecordUnreadable
from streams.kafka.settings import KafkaSettings

Record: TypeAlias = ConsumerRecord[bytes | None, bytes | None]

_POLL_MS = 100  # the longest sleep before the positions are looked at again


async def read_log(
    kafka: KafkaSettings,
    partitions: Sequence[TopicPartition],
    *,
    start: Mapping[TopicPartition, int] | None = None,
    stop: Mapping[TopicPartition, int] | None = None,
    stall_seconds: float | None = None,
) -> AsyncGenerator[Record, None]:
    """Every committed record of the partitions, in offset order within each.

    From `start` (where not given: from the oldest record held) to just before `stop` (where not given: the end of what
    is decided now, the last stable offset). It ends when every position has reached its stop; markers, aborted records
    and compacted ones move the position without yielding anything, so an empty fetch is not an end.

    Close it: use `async with contextlib.aclosing(read_log(...)) as records`.

    Raises LogUnavailable when no position moved for `stall_seconds` (kafka.stall_timeout_ms) or a broker refuses,
    LogTruncated when a start is not held (any more), RecordUnreadable when a record is larger than the fetch limit.
    """
    patience = kafka.stall_timeout_ms / 1000 if stall_seconds is None else stall_seconds
    consumer = log_consumer(kafka)
    try:
        await start_reader(consumer)
        first, end = await bounds(consumer, partitions)
        goal = end | dict(stop or {})
        place(consumer, first | dict(start or {}), first, end)
        unread = set(partitions)
        moved_at, moved_to = time.monotonic(), -1
        while True:
            positions = {partition: await consumer.position(partition) for partition in partitions}
            reached = {partition for partition in unread if positions[partition] >= goal[partition]}
            if reached:
                consumer.pause(*reached)
                unread -= reached
            if not unread and not await poll(consumer, 0):
                # Empty, so the positions are true: the client moves one over a record that it could not deliver, and
                # raises that at a later poll (case AIO-26).
                return
            now = time.monotonic()
            if (total := sum(positions.values())) != moved_to:
                moved_at, moved_to = now, total
            elif now - moved_at > patience:
                raise LogUnavailable(f"{_names(unread)} gave no record for {patience:g} s; look at the broker")
            for partition, records in (await poll(consumer, _POLL_MS)).items():
                for record in records:
                    if record.offset < goal[partition]:
                        yield record
    finally:
        await stop_client(consumer, kafka.close_timeout_ms / 1000)


async def start_reader(consumer: AIOKafkaConsumer) -> None:
    """Connect. Raises LogUnavailable where no broker answers."""
    try:
        await consumer.start()
    except (KafkaError, OSError) as error:
        raise LogUnavailable(f"no broker answers: {told(error)}") from error


async def bounds(
    consumer: AIOKafkaConsumer, partitions: Sequence[TopicPartition]
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """The oldest offset held of each partition, and the last stable offset. Raises LogUnavailable."""
    look_up(consumer, partitions)
    try:
        return await consumer.beginning_offsets(partitions), await consumer.end_offsets(partitions)
    except KafkaError as error:
        raise LogUnavailable(f"{_names(partitions)} cannot be found: {told(error)}; create the topics first") from error


def place(
    consumer: AIOKafkaConsumer,
    start: Mapping[TopicPartition, int],
    first: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
) -> None:
    """Put a reader in front of `start`. Raises LogTruncated where the log does not hold that offset.

    Assigning and seeking happen without a pause between, or the client would look for offsets of its own.
    """
    for partition, offset in start.items():
        if not first[partition] <= offset <= end[partition]:
            raise LogTruncated(partition, offset, first[partition], end[partition])
    consumer.assign(list(start))
    for partition, offset in start.items():
        consumer.seek(partition, offset)


async def poll(consumer: AIOKafkaConsumer, timeout_ms: int) -> dict[TopicPartition, list[Record]]:
    """What has been fetched, waiting so long at most. Raises as read_log does.

    After an error the reader is worthless: the client moves its position over what it could not deliver (case AIO-26),
    and over what it had taken in the same call.
    """
    try:
        fetched: dict[TopicPartition, list[Record]] = await consumer.getmany(timeout_ms=timeout_ms)
    except OffsetOutOfRangeError as error:
        ((partition, offset),) = error.args[0].items()
        first, end = await bounds(consumer, [partition])
        raise LogTruncated(partition, offset, first[partition], end[partition]) from error
    except RecordTooLargeError as error:
        _, partition, offset, limit = error.args
        raise RecordUnreadable(
            partition,
            offset,
            f"it is larger than the fetch limit of {limit} bytes; raise KAFKA_MAX_PARTITION_FETCH_BYTES",
        ) from error
    except CorruptRecordException as error:
        raise LogUnavailable(f"a record's checksum is wrong: {error}; look at the broker's disks") from error
    except KafkaError as error:
        raise LogUnavailable(f"a fetch failed: {told(error)}") from error
    return fetched


def _names(partitions: Sequence[TopicPartition] | set[TopicPartition]) -> str:
    return ", ".join(f"{partition.topic}[{partition.partition}]" for partition in sorted(partitions))
