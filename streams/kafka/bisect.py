"""Where in a log to begin, when only its end is needed."""

import time
from collections.abc import Callable

from aiokafka import AIOKafkaConsumer, TopicPartition

from streams.kafka.clients import log_consumer, stop_client
from streams.kafka.errors import LogUnavailable
from streams.kafka.log import Record, bounds, place, poll, start_reader
from streams.kafka.settings import KafkaSettings

_POLL_MS = 50  # the longest sleep before the position is looked at again
_FETCH_BYTES_MAX = 1 << 20  # one record is asked for, and more comes with it
# Records between two looks: reading so many takes as long as looking once more.
_NEAR_ENOUGH = 1000


async def first_needed(kafka: KafkaSettings, partition: TopicPartition, unneeded: Callable[[Record], bool]) -> int:
    """An offset at or a little before the first record that `unneeded` says no to; that of the oldest one held, if it
    says no to that.

    Of two records it must not say yes to the later one only. Looks at some twenty records of a log of a thousand
    million. Raises LogUnavailable and LogTruncated as read_log does.
    """
    small = {"max_partition_fetch_bytes": _FETCH_BYTES_MAX, "fetch_max_bytes": _FETCH_BYTES_MAX}
    consumer = log_consumer(kafka.model_copy(update=small))
    try:
        await start_reader(consumer)
        first, end = await bounds(consumer, [partition])
        low, high = first[partition], end[partition]
        place(consumer, {partition: low}, first, end)
        patience = kafka.stall_timeout_ms / 1000
        at = low  # the oldest first: often all of the log is needed
        while high - low > _NEAR_ENOUGH:
            record = await _next(consumer, partition, at, high, patience)
            if record is not None and unneeded(record):
                low = record.offset + 1
            else:
                high = at
            at = (low + high) // 2
        return low
    finally:
        await stop_client(consumer, kafka.close_timeout_ms / 1000)


async def _next(
    consumer: AIOKafkaConsumer, partition: TopicPartition, start: int, stop: int, patience_seconds: float
) -> Record | None:
    """The first committed record from `start` to just before `stop`."""
    consumer.seek(partition, start)
    position, moved_at = start, time.monotonic()
    while position < stop:
        for record in (await poll(consumer, _POLL_MS)).get(partition, ()):
            return record if record.offset < stop else None
        if (at := await consumer.position(partition)) != position:
            position, moved_at = at, time.monotonic()
        elif time.monotonic() - moved_at > patience_seconds:
            raise LogUnavailable(f"{partition} gave nothing at {position} for {patience_seconds:g} s")
    return None
