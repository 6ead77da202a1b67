"""The member of the pool's group: it fetches work, pauses what must wait, and hands each record to the index's owner.

Positions and pauses of the client are lost in every rebalance and are trusted by nobody: what is to be paused is worked
out anew before each fetch, and every index has its own next offset.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence, Set
from contextlib import suppress
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import KafkaError, RecordTooLargeError

from gpu_consumer.assignor import IndexAssignor
from gpu_consumer.index import Index
from gpu_consumer.intake import Step
from gpu_consumer.settings import GpuConsumerSettings
from schemas.errors import told
from schemas.request import LANES, Lane
from schemas.topics import Catalogue
from streams.backoff import Backoff
from streams.kafka.clients import group_consumer, stop_client
from streams.kafka.log import Record
from streams.kafka.membership import is_live_member
from streams.kafka.settings import KafkaSettings

_LOG = logging.getLogger(__name__)
_POSITION_SECONDS = 1.0  # a position that is not known at once is not needed: the lane is not idle


class Fetcher(ConsumerRebalanceListener):  # type: ignore[misc]
    """For one loop and one task: `run`.

    `index_of` gives the open index of a number; `assigned` hears the numbers that are ours after each rebalance, and
    which of them another live member had until then;
    `room` says how many records of a lane are wanted now; `take` gets the records that are new, lane by lane;
    `pass_over` takes the index over a hole that was proven; `unreadable` gets what the client cannot deliver.
    """

    def __init__(
        self,
        settings: GpuConsumerSettings,
        kafka: KafkaSettings,
        catalogue: Catalogue,
        *,
        index_of: Callable[[int], Index | None],
        assigned: Callable[[set[int], Set[int]], None],
        room: Callable[[Lane], int],
        take: Callable[[Index, Lane, Sequence[Record]], None],
        pass_over: Callable[[Index, Lane, int], None],
        unreadable: Callable[[Index, Lane, int, str], None],
    ) -> None:
        self._settings = settings
        self._kafka = kafka
        self._index_of = index_of
        self._assigned = assigned
        self._room = room
        self._take = take
        self._pass_over = pass_over
        self._unreadable = unreadable
        self._lane_of = {catalogue.work(settings.pool, lane): lane for lane in LANES}
        self.topics = tuple(self._lane_of)
        self._assignor = IndexAssignor()
        assignors: Any = (self._assignor,)
        self._consumer: AIOKafkaConsumer = group_consumer(
            kafka, catalogue.gpu_group(settings.pool), assignors=assignors
        )
        self._stopping = False
        self.trouble: str | None = None  # what the client last said, while it fails

    async def start(self) -> None:
        """Join the group. Raises KafkaError where no broker answers."""
        self._consumer.subscribe(list(self._lane_of), listener=self)
        await self._consumer.start()

    async def run(self) -> None:
        """Fetch until `stop`: also while everything is paused, or the group would think that we hang."""
        backoff = Backoff(self._kafka.backoff_first_ms / 1000, self._kafka.backoff_most_ms / 1000)
        idle_at = 0.0
        loop = asyncio.get_running_loop()
        while True:
            self._regulate()
            try:
                fetched = await self._consumer.getmany(
                    timeout_ms=int(1000 * self._settings.poll_seconds), max_records=self._settings.poll_records_max
                )
            except RecordTooLargeError as error:
                self._too_large(error)
            except KafkaError as error:
                self.trouble = f"the broker: {told(error)}"
                _LOG.warning("fetching failed: %s", told(error))
                self._return_to_our_own()  # what the client had taken in this call is gone
                await asyncio.sleep(backoff.next())
            else:
                backoff.reset()
                self.trouble = None
                for partition, records in fetched.items():
                    self._deliver(partition, records)
                if loop.time() >= idle_at:
                    idle_at = loop.time() + self._settings.idle_seconds
                    await self._look_behind_the_last_record()

    async def is_live_member(self) -> bool:
        return await is_live_member(self._consumer)

    async def ends(self) -> dict[TopicPartition, int]:
        """The end of each partition that is assigned; of another one where none is, for asking shows that a broker
        answers. Raises KafkaError, TimeoutError.
        """
        asked = self._consumer.assignment() or {TopicPartition(next(iter(self._lane_of)), 0)}
        return dict(await self._consumer.end_offsets(list(asked)))

    def highwaters(self) -> dict[TopicPartition, int]:
        """Where each partition that is fetched now ended when the broker answered last, open transactions included."""
        fetched = self._consumer.assignment() - self._consumer.paused()
        known = {partition: self._consumer.highwater(partition) for partition in fetched}
        return {partition: end for partition, end in known.items() if end is not None}

    def lane_of(self, topic: str) -> Lane:
        return self._lane_of[topic]

    def wants(self, partition: TopicPartition) -> bool:
        """May records of this partition be taken now?"""
        lane = self._lane_of[partition.topic]
        index = self._index_of(partition.partition)
        return (
            index is not None
            and not self._stopping
            and self._room(lane) > 0
            and index.room(lane, self._settings.run_ahead_max)
        )

    def stop(self) -> None:
        """Take nothing more; `run` goes on, so that the group keeps us while what runs is finished."""
        self._stopping = True
        self._regulate()

    async def leave(self, seconds: float) -> None:
        """Leave the group, so that the others have the partitions at once, and close."""
        await stop_client(self._consumer, seconds)

    async def on_partitions_revoked(self, revoked: Sequence[TopicPartition]) -> None:
        """Nothing: what runs goes on, and what is finished is published for as long as the lease holds."""

    async def on_partitions_assigned(self, assigned: Sequence[TopicPartition]) -> None:
        if assigned:
            self._consumer.pause(*assigned)
        self._assigned({partition.partition for partition in assigned}, self._assignor.moved)
        self._return_to_our_own()

    def place(self, index: Index) -> None:
        """An index was opened: fetch from its own next offsets, whatever the group's are."""
        assignment = self._consumer.assignment()
        for lane in LANES:
            if (partition := index.partition(lane)) in assignment:
                self._consumer.seek(partition, index.next(lane))
        self._regulate()

    def _return_to_our_own(self) -> None:
        for partition in self._consumer.assignment():
            if (index := self._index_of(partition.partition)) is not None:
                self._consumer.seek(partition, index.next(self._lane_of[partition.topic]))

    def _regulate(self) -> None:
        """Pause and resume so that exactly what may be taken is fetched. The set is worked out, never remembered."""
        assignment = self._consumer.assignment()
        wanted = {partition for partition in assignment if self.wants(partition)}
        paused = self._consumer.paused() & assignment
        if resume := wanted & paused:
            self._consumer.resume(*resume)
        if pause := assignment - wanted - paused:
            self._consumer.pause(*pause)

    def _deliver(self, partition: TopicPartition, records: Sequence[Record]) -> None:
        index, lane = self._index_of(partition.partition), self._lane_of[partition.topic]
        if index is None:
            return  # it is read again when it is open
        new: list[Record] = []
        room = self._room(lane)
        for record in records:
            step = index.look(lane, record.offset)
            if step is Step.HOLE:
                self._pass_over(index, lane, record.offset)
            if step is Step.OLD:
                continue
            if step is Step.SEEK or len(new) >= room or not self.wants(partition):
                self._consumer.seek(partition, index.next(lane))
                break
            if index.advance(lane, record.offset):
                new.append(record)
        if new:
            self._take(index, lane, new)

    async def _look_behind_the_last_record(self) -> None:
        """Markers and removed records at the end of a lane move the client's position and are delivered by nobody.

        Left alone, they would be lag for ever.
        """
        for partition in self._consumer.assignment() - self._consumer.paused():
            index, lane = self._index_of(partition.partition), self._lane_of[partition.topic]
            if index is None:
                continue
            with suppress(TimeoutError, KafkaError):
                async with asyncio.timeout(_POSITION_SECONDS):
                    position = await self._consumer.position(partition)
                if self._index_of(partition.partition) is not index:
                    continue
                step = index.look(lane, position)
                if step is Step.HOLE:
                    self._pass_over(index, lane, position)
                elif step is Step.SEEK:
                    self._consumer.seek(partition, index.next(lane))

    def _too_large(self, error: RecordTooLargeError) -> None:
        """The client has moved its position over a record that it could not deliver (case AIO-26)."""
        _, partition, offset, limit = error.args
        index, lane = self._index_of(partition.partition), self._lane_of[partition.topic]
        step = Step.OLD if index is None else index.look(lane, offset)
        if index is not None and step is Step.HOLE:
            self._pass_over(index, lane, offset)
        if index is not None and step in (Step.NEXT, Step.HOLE) and index.advance(lane, offset):
            self._unreadable(index, lane, offset, f"the record is larger than the fetch limit of {limit} bytes")
        self._return_to_our_own()
