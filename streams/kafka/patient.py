"""A producer that does not give up: records of ours that may stand twice, and must stand once."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from streams.backoff import Backoff
from streams.kafka.clients import idempotent_producer, stop_client
from streams.kafka.sending import Output, send_all
from streams.kafka.settings import KafkaSettings

_LOG = logging.getLogger(__name__)
_BACKOFF_SECONDS_MIN = 0.1


class PatientProducer:
    """Writes without transactions, at least once. After a failure the client is replaced and the same is sent again:
    what it had not acknowledged may be there already."""

    def __init__(self, kafka: KafkaSettings, *, timeout_seconds: float, backoff_seconds_max: float) -> None:
        self._kafka = kafka
        self._timeout_seconds = timeout_seconds
        self._backoff_seconds_max = backoff_seconds_max
        self._producer: AIOKafkaProducer | None = None

    async def write(self, outputs: Sequence[Output], failed: Callable[[Exception], None]) -> None:
        """Return when every record is acknowledged; `failed` is told of each try that was not. Tries for ever. One
        caller at a time. A cancel ends it and leaves the outcome unknown, as a crash would."""
        backoff = Backoff(_BACKOFF_SECONDS_MIN, self._backoff_seconds_max)
        while True:
            try:
                async with asyncio.timeout(self._timeout_seconds):
                    await send_all(await self._current(), outputs)
            except (KafkaError, OSError, TimeoutError) as error:
                await self.close()
                _LOG.warning("%d records were not written, will try again: %r", len(outputs), error)
                failed(error)
                await asyncio.sleep(backoff.next())
            else:
                return

    async def close(self) -> None:
        """Bounded. Nothing is flushed."""
        producer, self._producer = self._producer, None
        if producer is not None:
            await stop_client(producer, self._kafka.close_timeout_ms / 1000)

    async def _current(self) -> AIOKafkaProducer:
        if self._producer is None:
            self._producer = idempotent_producer(self._kafka)
            await self._producer.start()
        return self._producer
