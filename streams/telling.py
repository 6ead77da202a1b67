"""The demand of the partitions owned here, told to every admission process. Best effort: nobody waits for it."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Self

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from admission.state import State
from schemas.codec import encode
from schemas.demand import Demand
from streams.demand import RateMeter, Rates, Teller
from streams.kafka.clients import idempotent_producer, stop_client
from streams.kafka.settings import KafkaSettings
from streams.settings import AdmissionServiceSettings

_LOG = logging.getLogger(__name__)
_REPEATS = 4  # within the time for which a demand is believed, so that one may be lost

Before = Callable[[int], tuple[Rates, float] | None]


class Telling:
    """An async context manager. `before` knows what was told last of a partition's rates, and how long ago."""

    def __init__(self, kafka: KafkaSettings, topic: str, settings: AdmissionServiceSettings, before: Before) -> None:
        self._kafka = kafka
        self._topic = topic
        self._settings = settings
        self._before = before
        self._tellers: dict[int, Teller] = {}
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run(), name="telling")
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.wait({self._task})

    def begin(self, state: State) -> Teller:
        """From now on the partition of `state` is told of."""
        settings, now = self._settings, time.monotonic()
        rates, age = self._before(state.partition) or ({}, 0.0)
        meter = RateMeter(settings.demand_mean_seconds, now, rates, age_seconds=age)
        teller = self._tellers[state.partition] = Teller(state, meter, settings.demand_units_max)
        return teller

    def end(self, teller: Teller) -> None:
        """The lease is closed: whoever has the next tells the next."""
        if self._tellers.get(teller.state.partition) is teller:
            del self._tellers[teller.state.partition]

    async def _run(self) -> None:
        trouble = False
        while True:
            try:
                async with contextlib.AsyncExitStack() as stack:
                    producer = idempotent_producer(self._kafka)
                    stack.push_async_callback(stop_client, producer, self._kafka.close_timeout_ms / 1000)
                    async with asyncio.timeout(self._kafka.request_timeout_ms / 1000):
                        await producer.start()
                    while True:
                        await self._tell(producer)
                        trouble = False
                        await asyncio.sleep(self._settings.demand_seconds)
            except (KafkaError, TimeoutError, OSError, ValueError) as error:  # the last: a figure that none can be
                if not trouble:  # once, and not every period of an outage
                    _LOG.warning("what waits here is not told for now: %r", error)
                trouble = True
            await asyncio.sleep(self._settings.demand_seconds)

    async def _tell(self, producer: AIOKafkaProducer) -> None:
        """All that is new, and then that it was told. Raises KafkaError, TimeoutError."""
        now, repeat_seconds = time.monotonic(), self._settings.demand_seconds_max / _REPEATS
        news: list[tuple[Teller, Demand]] = []
        for teller in self._tellers.values():
            demand = teller.news(now, datetime.now(UTC), repeat_seconds)
            if demand is not None:
                news.append((teller, demand))
        async with asyncio.timeout(self._kafka.request_timeout_ms / 1000):
            sent = [await producer.send(self._topic, encode(demand), key=demand.key) for _, demand in news]
            await asyncio.gather(*sent)
        for teller, demand in news:
            teller.told(demand, now)
