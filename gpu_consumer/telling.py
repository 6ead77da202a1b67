"""The hours of this consumer, told to topic `uptime`: again and again while it works, and once more at its end."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from gpu_consumer.spending import Spending
from schemas.codec import encode
from schemas.errors import told
from streams.kafka.clients import idempotent_producer, stop_client
from streams.kafka.periodic import failure_of, publish_for_ever
from streams.kafka.settings import KafkaSettings

_LOG = logging.getLogger(__name__)
_LAST_SECONDS = 1.0  # the last words come when the grace is over, and are worth no more


@asynccontextmanager
async def telling(
    kafka: KafkaSettings, topic: str, spending: Spending, consumer: str, *, period_seconds: float
) -> AsyncIterator[Callable[[], Exception | None]]:
    """For the time of the block. Nobody waits for it, but for the last words: a broker that is away makes them lost.

    Yields what asks why nothing is told any more; the service must say it, for no work fails of it.
    """

    async def publish(producer: AIOKafkaProducer) -> None:
        records = spending.news(consumer)
        try:
            async with asyncio.timeout(kafka.request_timeout_ms / 1000):
                for record in records:
                    await producer.send_and_wait(topic, encode(record), key=record.key)
        except BaseException:
            spending.untold(records)
            raise

    work = publish_for_ever(kafka, period_seconds, publish, "the hours of this consumer are")
    task = asyncio.create_task(work, name="uptime")
    try:
        yield lambda: failure_of(task)
    finally:
        task.cancel()
        await asyncio.wait({task})
        try:
            async with asyncio.timeout(_LAST_SECONDS), AsyncExitStack() as stack:
                producer = idempotent_producer(kafka)
                stack.push_async_callback(stop_client, producer, _LAST_SECONDS)
                await producer.start()
                await publish(producer)
        except (TimeoutError, KafkaError, OSError) as error:
            _LOG.warning("the last minute of this consumer is not told: %s", told(error))
