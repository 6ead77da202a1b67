"""The few things an owner asks a cluster beside reading logs and writing transactions."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Self

from aiokafka import TopicPartition

from schemas.topics import Catalogue
from streams.kafka.clients import admin_client, ends_consumer, group_consumer, look_up, stop_client
from streams.kafka.groups import Member, members_of
from streams.kafka.settings import KafkaSettings


class Cluster:
    """Offsets and topics, asked anew each time. An async context manager; every method may raise KafkaError, and its
    caller tries again later."""

    def __init__(self, kafka: KafkaSettings, catalogue: Catalogue) -> None:
        self._kafka = kafka
        self._requests = catalogue.requests
        self._group = catalogue.admission_group

    async def __aenter__(self) -> Self:
        # It asks for the group's offsets and never subscribes, so it is no member.
        self._offsets = group_consumer(self._kafka, self._group)
        self._admin = admin_client(self._kafka)
        self._ends = ends_consumer(self._kafka)
        try:
            await self._offsets.start()
            await self._admin.start()
            await self._ends.start()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await stop_client(self._offsets, self._kafka.close_timeout_ms / 1000)
        await self._admin.close()
        await stop_client(self._ends, self._kafka.close_timeout_ms / 1000)

    async def committed(self, partition: int) -> int | None:
        """The group's offset of a requests partition. Never to be asked after one's own commit: it may be stale."""
        committed: int | None = await self._offsets.committed(TopicPartition(self._requests, partition))
        return committed

    async def log_ends(self, partitions: Iterable[int]) -> Mapping[int, int]:
        """Where read_committed readers of requests end now, markers included: the last stable offset."""
        ends = await self._offsets.end_offsets([TopicPartition(self._requests, number) for number in partitions])
        return {tp.partition: end for tp, end in ends.items()}

    async def end(self, topic: str, partition: int) -> int:
        """The same of one partition of any topic."""
        at = TopicPartition(topic, partition)
        end: int = (await self._offsets.end_offsets([at]))[at]
        return end

    async def stability(
        self, partitions: Sequence[TopicPartition]
    ) -> tuple[Mapping[TopicPartition, int], Mapping[TopicPartition, int]]:
        """Last stable offsets and ends, of partitions of any topics, asked for in the order that StableWatch needs."""
        look_up(self._ends, partitions)
        ends = await self._ends.end_offsets(partitions)
        look_up(self._offsets, partitions)
        return await self._offsets.end_offsets(partitions), ends

    async def members(self, groups: Sequence[str]) -> Mapping[str, Sequence[Member]]:
        """Who is in each group now. A group that nobody ever joined has nobody."""
        return await members_of(self._admin, groups)

    async def partition_counts(self) -> Mapping[str, int]:
        """Every topic and how many partitions it has. Asks for all: naming a missing topic could create it."""
        return {topic["topic"]: len(topic["partitions"]) for topic in await self._admin.describe_topics()}
