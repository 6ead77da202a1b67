"""The control topic for a command: read to its end, and written to."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import aclosing

from aiokafka import TopicPartition
from pydantic import BaseModel

from schemas.codec import encode
from schemas.topics import Catalogue
from streams.control import Controls, PassedOver
from streams.kafka.admin import require_topics
from streams.kafka.clients import idempotent_producer, stop_client
from streams.kafka.log import read_log
from streams.kafka.settings import KafkaSettings


async def read_control(
    kafka: KafkaSettings,
    catalogue: Catalogue,
    known: Mapping[str, str],
    tell: Callable[[PassedOver], None] = lambda passed_over: None,
) -> Controls:
    """What control says now; `known` is as Controls has it, and `tell` hears of what is passed over.

    Raises LogUnavailable where the topic is missing or cannot be read.
    """
    await require_topics(kafka, [catalogue.control])
    controls = Controls(known)
    async with aclosing(read_log(kafka, [TopicPartition(catalogue.control, 0)])) as records:
        async for record in records:
            if (passed_over := controls.fold(record)) is not None:
                tell(passed_over)
    return controls


async def say(kafka: KafkaSettings, catalogue: Catalogue, records: Iterable[tuple[bytes, BaseModel | None]]) -> None:
    """Write (key, what is said) to control in their order; None takes it back. On return the cluster has them.

    Raises LogUnavailable where the topic is missing, KafkaError where the cluster cannot be reached.
    """
    await require_topics(kafka, [catalogue.control])
    producer = idempotent_producer(kafka)
    try:
        await producer.start()
        for key, said in records:
            await producer.send_and_wait(catalogue.control, None if said is None else encode(said), key=key)
    finally:
        await stop_client(producer, kafka.close_timeout_ms / 1000)
