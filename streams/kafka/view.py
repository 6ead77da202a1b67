"""A compacted topic, kept up to date in memory: no group, read from the start, followed for ever."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence

from aiokafka import AIOKafkaConsumer, TopicPartition

from streams.backoff import Backoff
from streams.kafka.clients import log_consumer, stop_client
from streams.kafka.errors import LogUnavailable, ViewFailed
from streams.kafka.log import Record, bounds, place, poll, start_reader
from streams.kafka.settings import KafkaSettings

_LOG = logging.getLogger(__name__)
_POLL_MS = 200  # how often an idle view looks at its age and for new partitions


class CompactedView:
    """Hands every committed record of a topic to `fold`, in offset order a partition, a tombstone included.

    Ready once it has folded all that was there when it first reached the broker. A broker in trouble makes it old, not
    failed: it tries again from where it was, so no record is folded twice or missed. What `fold` raises, a record
    larger than the fetch limit, or a log that lost what was not read yet, fails it for good: see `failure`.

    `fold` runs in the event loop of `start` and must not block it.
    """

    def __init__(self, kafka: KafkaSettings, topic: str, fold: Callable[[Record], None]) -> None:
        self._kafka = kafka
        self._topic = topic
        self._fold = fold
        self._next: dict[TopicPartition, int] = {}
        self._goal: Mapping[TopicPartition, int] | None = None
        self._caught_up = asyncio.Event()
        self._failure: Exception | None = None
        self._freshness = Freshness(time.monotonic())
        self._task: asyncio.Task[None] | None = None

    @property
    def ready(self) -> bool:
        """True from the moment the view was complete, for as long as it is followed."""
        return self._caught_up.is_set() and self._task is not None and not self._task.done()

    @property
    def age_seconds(self) -> float:
        """Since every partition was last heard of, a fetch without records included; at first since the start."""
        return self._freshness.age_seconds(time.monotonic())

    @property
    def failure(self) -> Exception | None:
        """Why the view has ended for good, if it has."""
        return self._failure

    async def start(self) -> None:
        """Begin to read, in a task of the view's own. Does not wait for the broker."""
        assert self._task is None, "a view starts once"
        self._freshness = Freshness(time.monotonic())
        self._task = asyncio.create_task(self._run(), name=f"view {self._topic}")

    async def wait_ready(self, timeout: float) -> None:
        """Wait until the view is complete. Raises TimeoutError after so many seconds, ViewFailed if it has failed."""
        assert self._task is not None, "start the view first"
        caught_up = asyncio.create_task(self._caught_up.wait())
        try:
            await asyncio.wait({caught_up, self._task}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        finally:
            caught_up.cancel()
        if self._failure is not None:
            raise ViewFailed(f"the view of {self._topic} has failed: {self._failure}") from self._failure
        if not self._caught_up.is_set():
            raise TimeoutError(f"{self._topic} was not read to its end within {timeout:g} s; look at the broker")

    async def stop(self) -> None:
        """End the reading; nothing is folded afterwards. Bounded by kafka.close_timeout_ms."""
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.wait({self._task})

    async def _run(self) -> None:
        backoff = Backoff(self._kafka.backoff_first_ms / 1000, self._kafka.backoff_most_ms / 1000)
        while self._failure is None:
            try:
                await self._follow(backoff)
            except LogUnavailable as trouble:
                pause = backoff.next()
                _LOG.warning("view %s: %s; again in %.1f s", self._topic, trouble, pause)
                await asyncio.sleep(pause)
            except Exception as failure:
                _LOG.exception("view %s has failed", self._topic)
                self._failure = failure

    async def _follow(self, backoff: Backoff) -> None:
        """Read with one consumer, until the topic has grown by a partition. Raises what ends the consumer's use."""
        consumer = log_consumer(self._kafka, follow=True)
        try:
            partitions = await self._assign(consumer)
            self._freshness.reset(time.monotonic(), partitions)
            while len(partitions) == len(consumer.partitions_for_topic(self._topic) or partitions):
                self._take(await poll(consumer, _POLL_MS))
                # The client moves a position over a record that it could not deliver, and says so later: a position is
                # believed when a poll after it was empty. It then counts markers too, which no record shows.
                positions = {at: await consumer.position(at) for at in partitions}
                more = await poll(consumer, 0)
                self._take(more)
                if not more:
                    self._next.update(positions)
                now = time.monotonic()
                for at in partitions:
                    self._freshness.hear(at, consumer.last_poll_timestamp(at), now)
                self._look_whether_caught_up()
                if (silence := self._freshness.silence_seconds(now)) * 1000 > self._kafka.stall_timeout_ms:
                    # Also when the client's own fetching has died without a word (case AIO-04).
                    raise LogUnavailable(f"nothing was heard for {silence:.0f} s")
                if self._freshness.complete:
                    backoff.reset()
        finally:
            await stop_client(consumer, self._kafka.close_timeout_ms / 1000)

    async def _assign(self, consumer: AIOKafkaConsumer) -> list[TopicPartition]:
        await start_reader(consumer)
        # Asking for one partition makes the client learn of the topic, and so of all the others.
        await bounds(consumer, [TopicPartition(self._topic, 0)])
        numbers = consumer.partitions_for_topic(self._topic) or {0}
        partitions = [TopicPartition(self._topic, number) for number in sorted(numbers)]
        first, end = await bounds(consumer, partitions)
        self._next = first | self._next
        place(consumer, self._next, first, end)
        if self._goal is None:
            self._goal = end
        return partitions

    def _take(self, fetched: Mapping[TopicPartition, Sequence[Record]]) -> None:
        for at, records in fetched.items():
            for record in records:
                self._fold(record)
                self._next[at] = record.offset + 1

    def _look_whether_caught_up(self) -> None:
        goal = self._goal or {}
        if not self._caught_up.is_set() and all(self._next[at] >= end for at, end in goal.items()):
            self._caught_up.set()


class Freshness:
    """When each partition was last heard of. The client stamps every answer of the broker; only a change counts."""

    def __init__(self, now: float) -> None:
        self._began = now
        self._session = now
        self._stamps: dict[TopicPartition, int] = {}
        self._heard: dict[TopicPartition, float] = {}

    def reset(self, now: float, partitions: Sequence[TopicPartition]) -> None:
        """A new consumer, whose stamps start anew. Its first partitions were heard of at the beginning, others now."""
        unheard = now if self._heard else self._began
        for partition in partitions:
            self._heard.setdefault(partition, unheard)
        self._session = now
        self._stamps = {}

    def hear(self, partition: TopicPartition, stamp: int | None, now: float) -> None:
        if stamp is not None and self._stamps.get(partition) != stamp:
            self._stamps[partition] = stamp
            self._heard[partition] = now

    @property
    def complete(self) -> bool:
        """Whether this consumer has heard of every partition."""
        return len(self._stamps) == len(self._heard)

    def age_seconds(self, now: float) -> float:
        return now - min(self._heard.values(), default=self._began)

    def silence_seconds(self, now: float) -> float:
        """Like the age, but a new consumer starts at none."""
        return now - max(self._session, min(self._heard.values(), default=self._began))
