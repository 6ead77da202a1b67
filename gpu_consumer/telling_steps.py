"""How far jobs are, told to topic `progress` for those who watch. No work waits for it, and none fails of it."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from aiokafka import AIOKafkaProducer

from gpu_consumer.metrics import GpuMetrics
from schemas.codec import encode
from schemas.partition import partition_of
from schemas.progress import ProgressEvent
from schemas.topics import Catalogue
from streams.kafka.clients import best_effort_producer
from streams.kafka.periodic import failure_of, publish_for_ever
from streams.kafka.sending import Output, send_all
from streams.kafka.settings import KafkaSettings

_LOG = logging.getLogger(__name__)
# A client mends its own connections for as long as a broker takes to start again. After that, and where the topic may
# not be written, one a second would do nothing but complain.
_RETRY_SECONDS = 10.0


@asynccontextmanager
async def telling_steps(
    kafka: KafkaSettings,
    catalogue: Catalogue,
    news: Callable[[], Sequence[ProgressEvent]],
    metrics: GpuMetrics,
    *,
    period_seconds: float,
) -> AsyncIterator[None]:
    """For the time of the block, every `period_seconds`; never where that is 0.

    What the broker does not take is dropped and counted. While a send is under way, and while the broker is away,
    nothing is looked at: the next event of a job says how far it is then, and nothing is kept for it.
    """
    if not period_seconds:
        yield
        return

    async def publish(producer: AIOKafkaProducer) -> None:
        events, outcome = news(), "dropped"
        while not events:  # to have sent nothing says nothing of the topic
            await asyncio.sleep(period_seconds)
            events = news()
        try:
            async with asyncio.timeout(kafka.request_timeout_ms / 1000):
                await send_all(producer, (_output(event, catalogue) for event in events))
            outcome = "sent"
        finally:
            metrics.count("progress_events_total", len(events), outcome=outcome)

    work = publish_for_ever(
        kafka, period_seconds, publish, "how far jobs are is",
        make=best_effort_producer, retry_seconds=max(period_seconds, _RETRY_SECONDS),
    )  # fmt: skip
    task = asyncio.create_task(work, name="steps")
    task.add_done_callback(_complain)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


def _output(event: ProgressEvent, catalogue: Catalogue) -> Output:
    """On the partition of its tenant, where its results are in their topic."""
    key = event.tenant.encode()
    return Output(catalogue.progress, partition_of(key, catalogue.requests_partitions), key, encode(event))


def _complain(task: "asyncio.Task[None]") -> None:
    """A defect of ours ends the telling, and not the process, which works as well without."""
    if (failure := failure_of(task)) is not None:
        _LOG.error("how far jobs are is told no more; this is a defect, and a restart mends it", exc_info=failure)
