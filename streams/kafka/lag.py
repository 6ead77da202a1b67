"""A group's lag as KEDA computes it, but for transactions that are open: end less committed offset, earliest where
nothing was committed. The end is the last stable offset, beyond which nothing can be read yet."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import GroupCoordinatorNotAvailableError
from aiokafka.structs import OffsetAndMetadata

from streams.kafka.clients import admin_client, log_consumer, look_up, stop_client
from streams.kafka.settings import KafkaSettings

_COORDINATOR_TRIES, _PAUSE_SECONDS = 100, 0.1  # a new cluster makes its offsets topic when first asked


@dataclass(frozen=True, slots=True)
class Offsets:
    """Of a partition. `committed`: of a group, None where it has none or they expired; `start`: the oldest held."""

    committed: int | None
    start: int
    end: int

    @property
    def lag(self) -> int:
        return self.end - (self.start if self.committed is None else self.committed)


async def group_lag(kafka: KafkaSettings, group: str, topics: Sequence[str]) -> dict[str, int]:
    """Topic -> records that can be read and `group` has not committed. A topic that is missing has none.

    Raises KafkaError where the cluster does not answer.
    """
    return {topic: sum(each.lag for each in of) for topic, of in (await group_offsets(kafka, group, topics)).items()}


async def group_offsets(kafka: KafkaSettings, group: str, topics: Sequence[str]) -> dict[str, list[Offsets]]:
    """Topic -> the offsets of its partitions; none of a topic that is missing. Raises as group_lag does."""
    admin = admin_client(kafka)
    await admin.start()
    try:
        consumer = log_consumer(kafka)
        try:
            await consumer.start()
            committed = await committed_offsets(admin, group)
            # The consumer has subscribed to nothing, so it knows no partitions: the admin client asks for them.
            partitions = [
                TopicPartition(topic["topic"], each["partition"])
                for topic in await admin.describe_topics(list(topics))
                for each in topic["partitions"]
            ]
            look_up(consumer, partitions)
            begins = await consumer.beginning_offsets(partitions)
            ends = await consumer.end_offsets(partitions)
        finally:
            await stop_client(consumer, kafka.close_timeout_ms / 1000)
    finally:
        await admin.close()
    found: dict[str, list[Offsets]] = {topic: [] for topic in topics}
    for each in partitions:
        offset = committed[each].offset if each in committed else -1
        found[each.topic].append(Offsets(offset if offset >= 0 else None, begins[each], ends[each]))
    return found


async def committed_offsets(admin: AIOKafkaAdminClient, group: str) -> Mapping[TopicPartition, OffsetAndMetadata]:
    """What `group` has committed; nothing where it never did. Raises KafkaError."""
    tries = 0
    while True:
        try:
            committed: Mapping[TopicPartition, OffsetAndMetadata] = await admin.list_consumer_group_offsets(group)
        except GroupCoordinatorNotAvailableError:
            if (tries := tries + 1) > _COORDINATOR_TRIES:
                raise
            await asyncio.sleep(_PAUSE_SECONDS)
        else:
            return committed
