"""Records that are written again and again, each better than the one before: nobody waits for any of them."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from schemas.errors import told
from streams.kafka.clients import idempotent_producer, stop_client
from streams.kafka.settings import KafkaSettings

_LOG = logging.getLogger(__name__)


def failure_of(task: "asyncio.Task[None] | None") -> Exception | None:
    """What ended a task that is to run until it is cancelled: a defect of ours, which nobody would hear of, since
    nobody waits for it. None: it runs, or was cancelled."""
    if task is None or not task.done() or task.cancelled():
        return None
    error = task.exception()
    return error if isinstance(error, Exception) else None


async def publish_for_ever(
    kafka: KafkaSettings,
    period_seconds: float,
    publish: Callable[[AIOKafkaProducer], Awaitable[None]],
    what: str,
    *,
    make: Callable[[KafkaSettings], AIOKafkaProducer] | None = None,
    retry_seconds: float | None = None,
) -> None:
    """Call `publish` every `period_seconds`, until cancelled. Where it raises KafkaError, TimeoutError or OSError, or
    ValueError for a figure that none can be, it is called again with another producer, by default as much later;
    `what` is said to be missing once, and not every period of an outage. `make`: an idempotent one, if not given."""
    trouble = False
    while True:
        try:
            async with contextlib.AsyncExitStack() as stack:
                producer = (make or idempotent_producer)(kafka)
                stack.push_async_callback(stop_client, producer, kafka.close_timeout_ms / 1000)
                async with asyncio.timeout(kafka.request_timeout_ms / 1000):
                    await producer.start()
                while True:
                    await publish(producer)
                    trouble = False
                    await asyncio.sleep(period_seconds)
        except (KafkaError, TimeoutError, OSError, ValueError) as error:
            if not trouble:
                _LOG.warning("%s not published for now: %s", what, told(error))
            trouble = True
        await asyncio.sleep(retry_seconds or period_seconds)
