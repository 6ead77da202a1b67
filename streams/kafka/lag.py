"""A group's lag as KEDA computes it: end offset less committed offset, earliest where nothing was committed."""

from collections.abc import Sequence

from aiokafka import TopicPartition

from streams.kafka.clients import admin_client, log_consumer, stop_client
from streams.kafka.settings import KafkaSettings


async def group_lag(kafka: KafkaSettings, group: str, topics: Sequence[str]) -> dict[str, int]:
    """Topic -> records behind the high watermark that `group` has not committed. A topic that is missing has none.

    Raises KafkaError where the cluster does not answer.
    """
    admin = admin_client(kafka)
    consumer = log_consumer(kafka)
    await admin.start()
    try:
        await consumer.start()
        try:
            committed = await admin.list_consumer_group_offsets(group)
            # The consumer has subscribed to nothing, so it knows no partitions: the admin client asks for them.
            partitions = [
                TopicPartition(topic["topic"], each["partition"])
                for topic in await admin.describe_topics(list(topics))
                for each in topic["partitions"]
            ]
            begins = await consumer.beginning_offsets(partitions)
            ends = await consumer.end_offsets(partitions)
        finally:
            await stop_client(consumer, kafka.close_timeout_ms / 1000)
    finally:
        await admin.close()
    lags = dict.fromkeys(topics, 0)
    for partition in partitions:
        offset = committed[partition].offset if partition in committed else -1
        lags[partition.topic] += ends[partition] - (offset if offset >= 0 else begins[partition])
    return lags
