"""What batches take, between our engine and the others of the same device: ours is told, theirs is learned."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from gpu_consumer.engine.protocol import DeviceEngine, EngineDied, Observed
from gpu_consumer.observations import Observations
from streams.kafka.periodic import failure_of


class Measures:
    """For one loop. Nothing here fails work, and nothing waits for it."""

    def __init__(self, engine: DeviceEngine, observations: Observations, *, period_seconds: float) -> None:
        self._engine = engine
        self._observations = observations
        self._period_seconds = period_seconds
        self._learning: asyncio.Task[None] | None = None

    @property
    def failure(self) -> Exception | None:
        """Why measures are exchanged no more. It fails no work, so the service must say it."""
        return self._observations.failure or failure_of(self._learning)

    def note(self, observed: Observed) -> None:
        peak = observed.peak
        self._observations.note(peak.kind, peak.bucket, observed.config_hash, peak.bytes, observed.gpu_seconds)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Publish and read for the time of the block."""
        await self._observations.start()
        learning = self._learning = asyncio.create_task(self._learn(), name="learn")
        try:
            yield
        finally:
            learning.cancel()
            await asyncio.wait({learning})
            await self._observations.stop()

    async def _learn(self) -> None:
        """Again and again: an engine that was started anew knows nothing, and to hear a thing twice costs nothing."""
        while True:
            if peaks := self._observations.peaks():
                with suppress(EngineDied):  # whoever runs work hears of it too, and starts the next
                    await self._engine.learn(peaks)
            await asyncio.sleep(self._period_seconds)
