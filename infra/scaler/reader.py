"""Reads what waits in all pools' lanes ahead of their consumers: what each job costs and when it is due. No group."""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from sys import intern
from typing import Annotated

from aiokafka import AIOKafkaConsumer, TopicPartition
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from infra.scaler.book import Book, Place, Work
from schemas.codec import decode_object
from schemas.errors import Undecodable
from schemas.topics import Catalogue
from schemas.work import HEADER_DEADLINE_MS
from streams.backoff import Backoff
from streams.kafka.clients import log_consumer, stop_client
from streams.kafka.errors import LogTruncated, LogUnavailable, StreamError
from streams.kafka.log import Record, bounds, place, poll, start_reader
from streams.kafka.settings import KafkaSettings
from streams.kafka.view import Freshness

_LOG = logging.getLogger(__name__)
_POLL_MS = 200  # how soon a partition that has room again is read on
_PRICE_MAX = 1e9  # no job is dearer; of sums of such numbers none is too large
_IMAGES_MAX = 1_000_000


class _Said(BaseModel):
    """The part of a work item that matters here."""

    model_config = ConfigDict(extra="ignore")

    price_gpu_seconds: Annotated[float, Field(ge=0, le=_PRICE_MAX)]
    config_hash: str
    images: Annotated[int, Field(ge=1, le=_IMAGES_MAX)]


@dataclass(frozen=True, slots=True)
class _Source:
    book: Book
    place: Place
    pool: str


class WorkReader:
    """For one task: `run`. `changed` hears of each pool that something was read of."""

    def __init__(
        self, kafka: KafkaSettings, catalogue: Catalogue, books: Mapping[str, Book], changed: Callable[[str], None]
    ) -> None:
        self._kafka = kafka
        self._books = books
        self._changed = changed
        self._sources = {
            TopicPartition(catalogue.work(pool, at.lane), at.index): _Source(book, at, pool)
            for pool, book in books.items()
            for at in book.places
        }
        self._freshness = Freshness(time.monotonic())
        self._heard_of_all = False

    @property
    def age_seconds(self) -> float:
        """Since every partition that is read was last heard of; inf before all were once."""
        return self._freshness.age_seconds(time.monotonic()) if self._heard_of_all else math.inf

    async def run(self) -> None:
        """Read until cancelled. A broker in trouble, or a log that lost what was not read yet, is read anew."""
        backoff = Backoff(self._kafka.backoff_first_ms / 1000, self._kafka.backoff_most_ms / 1000)
        while True:
            try:
                await self._follow(backoff)
            except StreamError as trouble:
                pause = backoff.next()
                _LOG.warning("work is not read for now: %s; again in %.1f s", trouble, pause)
                await asyncio.sleep(pause)

    async def _follow(self, backoff: Backoff) -> None:
        consumer = log_consumer(self._kafka, follow=True)
        try:
            await start_reader(consumer)
            watermarks = {pool: book.watermarks() for pool, book in self._books.items()}
            first, end = await bounds(consumer, list(self._sources))
            for at, source in self._sources.items():
                source.book.look_at_bounds(source.place, first[at], end[at], watermarks[source.pool])
            place(consumer, {at: self._start(at, first[at], end[at]) for at in self._sources}, first, end)
            self._freshness.reset(time.monotonic(), list(self._sources))
            while True:
                full = self._regulate(consumer)
                self._take(await self._poll(consumer))
                now = time.monotonic()
                for at in self._sources.keys() - full:
                    self._freshness.hear(at, consumer.last_poll_timestamp(at), now)
                for at in full:  # known as far as it is wanted
                    self._freshness.hear(at, int(now * 1000), now)
                if (silence := self._freshness.silence_seconds(now)) * 1000 > self._kafka.stall_timeout_ms:
                    raise LogUnavailable(f"nothing was heard for {silence:.0f} s")
                if self._freshness.complete:
                    self._heard_of_all = True
                    backoff.reset()
        finally:
            await stop_client(consumer, self._kafka.close_timeout_ms / 1000)

    def _start(self, at: TopicPartition, first: int, end: int) -> int:
        source = self._sources[at]
        wanted = source.book.read_from(source.place)
        if first <= wanted <= end:
            return wanted
        source.book.forget(source.place)
        return min(max(first, source.book.read_from(source.place)), end)

    async def _poll(self, consumer: AIOKafkaConsumer) -> Mapping[TopicPartition, list[Record]]:
        try:
            return await poll(consumer, _POLL_MS)
        except LogTruncated as lost:
            source = self._sources[lost.partition]
            source.book.forget(source.place)
            raise LogUnavailable(str(lost)) from lost

    def _regulate(self, consumer: AIOKafkaConsumer) -> set[TopicPartition]:
        """Pause what is read far enough ahead, and resume the rest. Returns the paused."""
        full = {at for at, source in self._sources.items() if not source.book.room(source.place)}
        paused = consumer.paused()
        if pause := full - paused:
            consumer.pause(*pause)
        if resume := paused - full:
            consumer.resume(*resume)
        return full

    def _take(self, fetched: Mapping[TopicPartition, list[Record]]) -> None:
        pools = set()
        for at, records in fetched.items():
            source = self._sources[at]
            for record in records:
                source.book.read(source.place, record.offset, work_of(record.value), deadline_of(record))
            pools.add(source.pool)
        for pool in pools:
            self._changed(pool)


def work_of(value: bytes | None) -> Work | None:
    """What a work item asks for. None where it cannot be told, be it of a newer release: a scaler must not stop for
    it."""
    if value is None:
        return None
    try:
        said = _Said.model_validate(decode_object(value), strict=True)
    except (Undecodable, ValidationError):
        return None
    return Work(said.price_gpu_seconds, intern(said.config_hash), said.images)


def deadline_of(record: Record) -> float:
    """Seconds of the wall; inf where the record has none. A header of work never changes its form."""
    for name, value in record.headers:
        if name == HEADER_DEADLINE_MS:
            try:
                return int(value) / 1000
            except (ValueError, TypeError, OverflowError):  # text, nothing, or more than a number holds
                break
    return math.inf
