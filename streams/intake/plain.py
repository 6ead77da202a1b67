"""Intake by a plain aiokafka consumer: the second one, small enough to be checked by eye."""

import asyncio
from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition

from streams.intake.base import IntakeHandler
from streams.intake.eager import Begun, begin
from streams.kafka.clients import group_consumer, stop_client
from streams.kafka.log import Record, poll
from streams.kafka.membership import is_live_member
from streams.kafka.settings import KafkaSettings
from streams.requests import arrival_of

_POLL_MS = 100  # how soon a stop, or a partition that is resumed, is noticed


class PlainIntake:
    """Feeds each partition as far as its owner has room, mostly all of it; the rest by a task of the partition's own.
    While that one waits, the partition is paused, and the others go on. A pause is no small thing: what comes next is
    not fetched before the fetch of the others has ended, which waits for records of theirs."""

    def __init__(self, kafka: KafkaSettings, *, group: str, topic: str) -> None:
        self._kafka = kafka
        self._group = group
        self._topic = topic
        self._consumer: AIOKafkaConsumer | None = None
        self._feeding: dict[TopicPartition, asyncio.Task[None]] = {}
        self._stopping = False
        self._done = asyncio.Event()

    async def run(self, handler: IntakeHandler) -> None:
        """Raises LogUnavailable or RecordUnreadable where the client cannot go on: its position is then worthless."""
        consumer = self._consumer = group_consumer(self._kafka, self._group)
        consumer.subscribe([self._topic], listener=_Listener(handler, self))
        try:
            await consumer.start()
            while not self._stopping:
                for tp, records in (await poll(consumer, _POLL_MS)).items():
                    if tp not in consumer.assignment():
                        continue
                    rest = begin(_feed(handler, tp.partition, records, self._feeding.get(tp)))
                    if rest is not None:
                        consumer.pause(tp)
                        self._feeding[tp] = asyncio.create_task(_end(rest), name=f"feed {tp}")
                self._resume(consumer)
        finally:
            await self.forget(set(self._feeding))
            await stop_client(consumer, self._kafka.close_timeout_ms / 1000)
            self._done.set()

    def _resume(self, consumer: AIOKafkaConsumer) -> None:
        for tp, task in list(self._feeding.items()):
            if task.done():
                del self._feeding[tp]
                task.result()
                if tp in consumer.assignment():  # or it left meanwhile (case AIO-16)
                    consumer.resume(tp)

    async def forget(self, partitions: AbstractSet[TopicPartition]) -> None:
        """What was fetched of these will not be fed: whoever owns them next reads it again."""
        tasks = [task for tp in partitions if (task := self._feeding.pop(tp, None)) is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def is_live_member(self) -> bool:
        return self._consumer is not None and await is_live_member(self._consumer)

    async def stop(self) -> None:
        self._stopping = True
        if self._consumer is not None:
            await self._done.wait()


async def _feed(
    handler: IntakeHandler, partition: int, records: Iterable[Record], after: "asyncio.Task[None] | None"
) -> None:
    """In order: a rebalance resumes a partition whose former records are still being fed."""
    if after is not None:
        await after
    await handler.feed(partition, map(arrival_of, records))


async def _end(rest: Begun) -> None:
    await rest


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, handler: IntakeHandler, intake: PlainIntake) -> None:
        self._handler = handler
        self._intake = intake

    async def on_partitions_revoked(self, revoked: AbstractSet[TopicPartition]) -> None:
        await self._intake.forget(revoked)
        await self._handler.revoked({tp.partition for tp in revoked})

    async def on_partitions_assigned(self, assigned: AbstractSet[TopicPartition]) -> None:
        await self._handler.assigned({tp.partition for tp in assigned})
