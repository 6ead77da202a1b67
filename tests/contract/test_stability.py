"""What an open transaction looks like from outside, on a real broker."""

import asyncio

from aiokafka import TopicPartition

from schemas.topics import Catalogue
from streams.cluster import Cluster
from streams.kafka.clients import transactional_producer
from streams.kafka.settings import KafkaSettings


async def test_an_open_transaction_is_seen_and_so_is_its_end(kafka: KafkaSettings, catalogue: Catalogue) -> None:
    at = TopicPartition(catalogue.results, 0)
    patient = kafka.model_copy(update={"transaction_timeout_ms": 300_000})
    producer = transactional_producer(patient, f"{catalogue.settings.prefix}.stranger")
    await producer.start()
    try:
        async with Cluster(kafka, catalogue) as cluster:
            assert await cluster.stability([at]) == ({at: 0}, {at: 0})
            async with producer.transaction():
                await producer.send_and_wait(at.topic, b"hidden", partition=at.partition)
                stable, ends = await cluster.stability([at])
                assert (stable[at], ends[at]) == (0, 1)
            async with asyncio.timeout(30):
                while await cluster.stability([at]) != ({at: 2}, {at: 2}):  # the record, and a marker that comes later
                    pass
    finally:
        await producer.stop()
