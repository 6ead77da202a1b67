"""What an open transaction looks like from outside, on a real broker."""

from aiokafka import TopicPartition

from schemas.topics import Catalogue
from streams.cluster import Cluster
from streams.kafka.clients import transactional_producer
from streams.kafka.settings import KafkaSettings
from tests.integration.gpu_pool import eventually


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

            async def decided() -> bool:
                return await cluster.stability([at]) == ({at: 2}, {at: 2})

            await eventually(decided, "the record and, a moment later, its marker are stable")
    finally:
        await producer.stop()
