"""Keeps the engine up: it is started again after each death, and given up where it dies too often."""

import asyncio
import logging
from collections import deque

from gpu_consumer.clock import Clock
from gpu_consumer.engine.protocol import Engine, EngineDied, Ready
from gpu_consumer.metrics import GpuMetrics
from gpu_consumer.models.digests import ModelUnavailable
from gpu_consumer.settings import GpuConsumerSettings

_LOG = logging.getLogger(__name__)
_HOUR_SECONDS = 3600.0
_PAUSE_SECONDS_MAX = 30.0


def note_start(metrics: GpuMetrics, ready: Ready) -> None:
    """How long the engine took to be there (import, load and warm), and the memory of its device."""
    metrics.set("memory_bytes", ready.device.memory_bytes, kind="total")
    for stage, seconds in ready.timings.items():
        metrics.set("start_seconds", seconds, stage=stage)


class EngineUnusable(Exception):
    """The engine died too often within an hour. End the process: another card, or another node, may do better."""


class EngineKeeper:
    """For one task. `restarting` says why, while the engine is being started again."""

    def __init__(self, settings: GpuConsumerSettings, engine: Engine, metrics: GpuMetrics, clock: Clock) -> None:
        self._restarts_max = settings.restarts_per_hour_max
        self._engine = engine
        self._metrics = metrics
        self._clock = clock
        self._deaths: deque[float] = deque()
        self.restarting: str | None = None

    async def restart(self, why: str) -> None:
        """Until the engine is up again. Raises EngineUnusable where that was tried too often within an hour."""
        pause = 0.0
        while True:
            self._count_death(why)
            self.restarting = why
            await asyncio.sleep(pause)
            self._metrics.count("engine_restarts_total")
            try:
                ready = await self._engine.start()
            except (EngineDied, ModelUnavailable) as error:
                why = str(error)
                _LOG.error("the engine does not start: %s", why)
                pause = min(_PAUSE_SECONDS_MAX, 2 * pause + 0.5)
            else:
                note_start(self._metrics, ready)
                self.restarting = None
                _LOG.info("the engine runs again, after %.1f s", sum(ready.timings.values()))
                return

    def _count_death(self, why: str) -> None:
        now = self._clock.steady()
        self._deaths.append(now)
        while self._deaths[0] < now - _HOUR_SECONDS:
            self._deaths.popleft()
        if len(self._deaths) > self._restarts_max:
            raise EngineUnusable(
                f"the engine was restarted {self._restarts_max} times within an hour; "
                f"look at the card and at this: {why}"
            )
