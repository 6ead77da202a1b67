"""Accepted work goes to the GPU pools: outside transactions, at least once, always the same bytes.

A commit marker would leave a lag of 1 on each partition, and a pool could never scale to zero. So work is written by an
idempotent producer without transactions; what may stand twice is equal, on one partition, and known by its job id.
"""

import asyncio
import logging
import re
from collections.abc import Sequence

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from schemas.decision import Decision
from schemas.topics import Catalogue
from schemas.work import HEADER_DEADLINE_MS, HEADER_JOB, HEADER_SCHEMA
from streams.backoff import Backoff
from streams.kafka.clients import idempotent_producer, stop_client
from streams.kafka.sending import Output, send_all
from streams.kafka.settings import KafkaSettings
from streams.metrics import AdmissionMetrics

log = logging.getLogger(__name__)

# A quotation mark within a text of the sender's has a backslash before it, so this is a name and no text.
_VERSION = re.compile(r'[{,]"schema_version":(\d+)')


class Emission:
    """The one producer of work in this process; all owners share it.

    A failure concerns nobody's lease: the producer is replaced and the same decisions are produced again.
    """

    def __init__(
        self,
        kafka: KafkaSettings,
        catalogue: Catalogue,
        metrics: AdmissionMetrics,
        *,
        timeout_seconds: float,
        backoff_seconds_max: float,
    ) -> None:
        self._kafka = kafka
        self._catalogue = catalogue
        self._metrics = metrics
        self._timeout_seconds = timeout_seconds
        self._backoff_seconds_max = backoff_seconds_max
        self._producer: AIOKafkaProducer | None = None
        self._starting = asyncio.Lock()
        self._failing: dict[int, str] = {}

    async def emit(self, decisions: Sequence[Decision], *, partition: int) -> None:
        """Produce the work of `decisions` of a requests partition, and return when every record is acknowledged.

        Tries for ever; `problem` is the sentence of it meanwhile. A cancel ends it and leaves the outcome unknown, as
        a crash would."""
        accepted = [decision for decision in decisions if decision.work is not None]
        backoff = Backoff(0.1, self._backoff_seconds_max)
        self._metrics.set("not_emitted", len(accepted), partition=str(partition))
        try:
            while accepted:
                producer = self._producer
                try:
                    async with asyncio.timeout(self._timeout_seconds):
                        producer = await self._current()
                        await send_all(producer, (self._output(decision) for decision in accepted))
                except (KafkaError, OSError, TimeoutError) as error:
                    await self._discard(producer)
                    self._failing[partition] = f"work cannot be produced ({type(error).__name__}); trying again"
                    self._metrics.count("emission_retries_total")
                    log.warning("emission of %d decisions failed, will repeat: %r", len(accepted), error)
                    await asyncio.sleep(backoff.next())
                else:
                    self._metrics.set("not_emitted", 0, partition=str(partition))
                    return
        finally:
            self._failing.pop(partition, None)

    @property
    def problem(self) -> str | None:
        """The sentence of an emission that fails right now."""
        return next(iter(self._failing.values()), None)

    async def close(self) -> None:
        """Bounded. Nothing is flushed: what was not acknowledged is produced again by the next owner."""
        await self._discard(self._producer)

    def _output(self, decision: Decision) -> Output:
        assert decision.route is not None
        assert decision.work is not None
        topic = self._catalogue.work(decision.route.pool, decision.route.lane)
        key, value = decision.job_id.encode(), decision.work.encode()
        return Output(topic, decision.route.partition, key, value, work_headers(decision))

    async def _current(self) -> AIOKafkaProducer:
        async with self._starting:
            if self._producer is None:
                producer = idempotent_producer(self._kafka)
                try:
                    await producer.start()
                except BaseException:
                    await self._stop(producer)
                    raise
                self._producer = producer
            return self._producer

    async def _discard(self, producer: AIOKafkaProducer | None) -> None:
        if producer is not None and producer is self._producer:
            self._producer = None
            await self._stop(producer)

    async def _stop(self, producer: AIOKafkaProducer) -> None:
        await stop_client(producer, self._kafka.close_timeout_ms / 1000)


def work_headers(decision: Decision) -> tuple[tuple[str, bytes], ...]:
    """What WorkItem.headers() of the decided work gives, without reading the item again. The version is the item's own,
    so that a takeover after an upgrade repeats the same record."""
    assert decision.work is not None
    version = _VERSION.search(decision.work)
    return (
        (HEADER_JOB, decision.job_id.encode()),
        (HEADER_DEADLINE_MS, str(decision.deadline_ms).encode()),
        (HEADER_SCHEMA, version[1].encode() if version else b"1"),
    )
