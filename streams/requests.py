"""An owner's own view of its requests: where their log ends, and every record between two offsets.

read_log() does the same with a client of its own each time. This one stays connected, since an owner asks often: each
transaction marker in its partition is a hole in what the intake brings.
"""

import time
from collections.abc import AsyncGenerator
from typing import Self

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from admission.arrival import Arrival
from schemas.errors import told
from streams.kafka.clients import log_consumer, stop_client
from streams.kafka.errors import LogUnavailable
from streams.kafka.log import Record, bounds, poll, start_reader
from streams.kafka.settings import KafkaSettings

_POLL_MS = 50  # the longest sleep before the position is looked at again


class RequestsReader:
    """One partition of requests, read_committed, without a group. An async context manager, for one owner. After any
    error it is worthless."""

    def __init__(self, kafka: KafkaSettings, topic: str, partition: int) -> None:
        self._kafka = kafka
        self._consumer = log_consumer(kafka)
        self._tp = TopicPartition(topic, partition)

    async def __aenter__(self) -> Self:
        """Raises LogUnavailable."""
        try:
            await start_reader(self._consumer)
            first, _ = await bounds(self._consumer, [self._tp])
            self._consumer.assign([self._tp])
            self._consumer.pause(self._tp)
            self._consumer.seek(self._tp, first[self._tp])
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await stop_client(self._consumer, self._kafka.close_timeout_ms / 1000)

    async def end(self) -> int:
        """The last stable offset: what is below it is decided, markers included. Raises LogUnavailable."""
        try:
            ends = await self._consumer.end_offsets([self._tp])
        except KafkaError as error:
            raise LogUnavailable(f"the end of {self._tp} cannot be found: {told(error)}") from error
        end: int = ends[self._tp]
        return end

    async def between(self, start: int, stop: int) -> AsyncGenerator[list[Arrival], None]:
        """Every committed record from `start` to just before `stop`, as they were fetched. Close it when done.

        Raises LogUnavailable when the log does not move for kafka.stall_timeout_ms, LogTruncated when `start` is not
        held any more, RecordUnreadable when a record is larger than the fetch limit.
        """
        self._consumer.resume(self._tp)
        self._consumer.seek(self._tp, start)  # after the resume: it is what wakes the fetcher
        try:
            position, moved_at = start, time.monotonic()
            while position < stop:
                fetched = await poll(self._consumer, _POLL_MS)
                arrivals = [arrival_of(record) for record in fetched.get(self._tp, ()) if record.offset < stop]
                if arrivals:
                    yield arrivals
                now = time.monotonic()
                if (at := await self._consumer.position(self._tp)) != position or arrivals:
                    position, moved_at = at, now
                elif now - moved_at > self._kafka.stall_timeout_ms / 1000:
                    raise LogUnavailable(f"{self._tp} gave nothing at {position} for {now - moved_at:.0f} s")
        finally:
            self._consumer.pause(self._tp)


def arrival_of(record: Record) -> Arrival:
    return Arrival(record.partition, record.offset, record.timestamp, record.key, record.value, tuple(record.headers))
