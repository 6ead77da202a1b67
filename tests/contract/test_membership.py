"""A member by the group's own word, over a real broker."""

from aiokafka import AIOKafkaConsumer
from aiokafka.admin import NewTopic

from streams.kafka.clients import group_consumer, log_consumer, stop_client
from streams.kafka.membership import is_live_member
from streams.kafka.settings import KafkaSettings
from tests.contract.leased import create, until


async def is_live(consumer: AIOKafkaConsumer, partitions: int = 2) -> None:
    """Wait for it, and for what it is assigned: a short session on a slow machine may have it join once more."""

    async def live() -> bool:
        return len(consumer.assignment()) == partitions and await is_live_member(consumer)

    await until(live)


async def test_a_member_that_the_group_has_dropped_is_not_live(kafka: KafkaSettings, prefix: str) -> None:
    """Case AIO-02, and a frozen process that wakes: `assignment()` still lists the partitions."""
    await create(kafka, NewTopic(f"{prefix}.work", 2, 1))
    consumer = group_consumer(kafka, prefix)
    consumer.subscribe([f"{prefix}.work"])
    try:
        await consumer.start()
        await is_live(consumer)

        coordinator = consumer._coordinator
        await coordinator._stop_heartbeat_task()
        rival = group_consumer(kafka, prefix)
        rival.subscribe([f"{prefix}.work"])
        try:
            await rival.start()  # returns when the silent one has been dropped

            async def took_over() -> bool:
                return len(rival.assignment()) == 2

            await until(took_over)
            assert len(consumer.assignment()) == 2
            await is_live(rival)
            # Last, for the answer makes it join again, and so the rival's generation ends.
            assert not await is_live_member(consumer)
        finally:
            await stop_client(rival, 5)

        await is_live(consumer)
    finally:
        await stop_client(consumer, 5)
    assert not await is_live_member(consumer)


async def test_a_pending_rebalance_is_no_membership(kafka: KafkaSettings, prefix: str) -> None:
    await create(kafka, NewTopic(f"{prefix}.work", 2, 1))
    consumer = group_consumer(kafka, prefix)
    consumer.subscribe([f"{prefix}.work"])
    try:
        await consumer.start()
        consumer._coordinator.request_rejoin()
        assert not await is_live_member(consumer)

        await is_live(consumer)
    finally:
        await stop_client(consumer, 5)


async def test_a_reader_without_a_group_is_no_member(kafka: KafkaSettings) -> None:
    consumer = log_consumer(kafka)
    await consumer.start()
    try:
        assert not await is_live_member(consumer)
    finally:
        await stop_client(consumer, 5)
