"""Results come back to admission, so that what a tenant has outstanding falls."""

import logging
from collections import deque
from typing import Self

from aiokafka import TopicPartition
from pydantic import ValidationError

from schemas.result import Cancelled, Expired, Failed, Rejected, Succeeded, parse_result
from streams.kafka.clients import log_consumer, stop_client
from streams.kafka.errors import LogTruncated, LogUnavailable
from streams.kafka.log import Record, bounds, place, poll, start_reader
from streams.kafka.settings import KafkaSettings

Result = Succeeded | Failed | Rejected | Cancelled | Expired
log = logging.getLogger(__name__)


class ResultsReader:
    """One partition of results from an offset on, read_committed. An async context manager, for one owner."""

    def __init__(self, kafka: KafkaSettings, topic: str, partition: int, start: int) -> None:
        self._kafka = kafka
        self._consumer = log_consumer(kafka, follow=True)
        self._tp = TopicPartition(topic, partition)
        self._start = start
        self._arrived: deque[Record] = deque()
        self.caught_up = False  # the last take() left nothing that was committed when the broker answered last

    async def __aenter__(self) -> Self:
        """Raises LogUnavailable. Results that are gone end no job: those are given up at their deadline and slack."""
        try:
            await start_reader(self._consumer)
            first, end = await bounds(self._consumer, [self._tp])
            start = min(max(self._start, first[self._tp]), end[self._tp])
            if start != self._start:
                log.warning(
                    "results[%d] no longer holds offset %d, going on at %d", self._tp.partition, self._start, start
                )
            place(self._consumer, {self._tp: start}, first, end)
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await stop_client(self._consumer, self._kafka.close_timeout_ms / 1000)

    async def take(self, most: int) -> list[tuple[int, Result | None]]:
        """Up to `most` of what has arrived so far, with its offsets; None where another than us wrote it. Does not
        wait. Raises LogUnavailable; the reader is worthless then."""
        if not self._arrived:
            try:
                fetched = await poll(self._consumer, 0)
            except LogTruncated as lost:  # another reader begins where the log does
                raise LogUnavailable(str(lost)) from lost
            self._arrived.extend(fetched.get(self._tp, ()))
        taken = [self._read(self._arrived.popleft()) for _ in range(min(most, len(self._arrived)))]
        stable = self._consumer.last_stable_offset(self._tp)
        left = self._arrived or stable is None or await self._consumer.position(self._tp) < stable
        self.caught_up = not left
        return taken

    def _read(self, record: Record) -> tuple[int, Result | None]:
        try:
            return record.offset, parse_result(record.value or b"")
        except ValidationError:
            log.warning("results[%d] offset %d is no result of ours", self._tp.partition, record.offset)
            return record.offset, None
