"""A producer that does not give up: records of ours that may stand twice, and must stand once."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from schemas.errors import told
from streams.backoff import Backoff
from streams.kafka.clients import idempotent_producer, stop_client
from streams.kafka.sending import Output, send_all
from streams.kafka.settings import KafkaSettings

_LOG = logging.getLogger(__name__)
_BACKOFF_SECONDS_MIN = 0.1


class PatientProducer:
    """Writes without transactions, at least once, for any number of callers. After a failure the client is replaced and
    the same is sent again: what it had not acknowledged may be there already."""

    def __init__(self, kafka: KafkaSettings, *, timeout_seconds: float, backoff_seconds_max: float) -> None:
        self._kafka = kafka
        self._timeout_seconds = timeout_seconds
        self._backoff_seconds_max = backoff_seconds_max
        self._producer: AIOKafkaProducer | None = None
        self._starting = asyncio.Lock()

    async def write(self, outputs: Sequence[Output], failed: Callable[[Exception], None]) -> None:
        """Return when every record is acknowledged; `failed` is told of each try that was not. Tries for ever. A cancel
        ends it and leaves the outcome unknown, as a crash would."""
        backoff = Backoff(_BACKOFF_SECONDS_MIN, self._backoff_seconds_max)
        while True:
            producer = self._producer
            try:
                async with asyncio.timeout(self._timeout_seconds):
                    producer = await self._current()
                    await send_all(producer, outputs)
            except (KafkaError, OSError, TimeoutError) as error:
                await self._discard(producer)
                _LOG.warning("%d records were not written, will try again: %s", len(outputs), told(error))
                failed(error)
                await asyncio.sleep(backoff.next())
            else:
                return

    async def close(self) -> None:
        """Bounded. Nothing is flushed."""
        await self._discard(self._producer)

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
        """Where several failed with the same client, the first of them."""
        if producer is not None and producer is self._producer:
            self._producer = None
            await self._stop(producer)

    async def _stop(self, producer: AIOKafkaProducer) -> None:
        await stop_client(producer, self._kafka.close_timeout_ms / 1000)
