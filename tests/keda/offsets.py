"""A group's offsets as our own arithmetic takes them, read by another client than KEDA's, and what undoes them."""

import asyncio
from collections.abc import Iterable, Mapping

from confluent_kafka import OFFSET_END, Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from infra.scaling.keda import Partition
from streams.kafka.settings import KafkaSettings

_PATIENCE_SECONDS = 30


async def partitions_of(kafka: KafkaSettings, group: str, topic: str, partitions: int) -> list[Partition]:
    return await asyncio.to_thread(_partitions_of, kafka, group, topic, partitions)


def _partitions_of(kafka: KafkaSettings, group: str, topic: str, partitions: int) -> list[Partition]:
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": group,  # never joined: only its offsets are asked for
            "isolation.level": "read_uncommitted",  # KEDA counts to the high watermark
        }
    )
    try:
        asked = [TopicPartition(topic, number) for number in range(partitions)]
        found = []
        for at in consumer.committed(asked, timeout=_PATIENCE_SECONDS):
            low, high = consumer.get_watermark_offsets(
                TopicPartition(topic, at.partition), timeout=_PATIENCE_SECONDS, cached=False
            )
            found.append(Partition(at.offset if at.offset >= 0 else None, low, high))
        return found
    finally:
        consumer.close()


async def commit(kafka: KafkaSettings, group: str, topic: str, offsets: Mapping[int, int]) -> None:
    """As a consumer does that takes the offset after its last record."""
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": group})
    try:
        places = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
        await asyncio.to_thread(lambda: consumer.commit(offsets=places, asynchronous=False))
    finally:
        consumer.close()


async def expire_offsets(kafka: KafkaSettings, group: str) -> None:
    """As the broker does with a group that nobody was in for longer than offsets.retention."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    done = admin.delete_consumer_groups([group])[group]
    await asyncio.to_thread(done.result, _PATIENCE_SECONDS)


async def delete_records(kafka: KafkaSettings, topics: Iterable[str], partitions: int) -> None:
    """All there are, as retention does in its time."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    wanted = [TopicPartition(topic, number, OFFSET_END) for topic in topics for number in range(partitions)]
    for done in admin.delete_records(wanted).values():
        await asyncio.to_thread(done.result, _PATIENCE_SECONDS)
