"""The demand of the partitions owned here, told to every admission process. Best effort: nobody waits for it."""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Self

from aiokafka import AIOKafkaProducer

from admission.state import State
from schemas.codec import encode
from schemas.demand import Demand
from streams.demand import RateMeter, Rates, Teller
from streams.kafka.periodic import failure_of, publish_for_ever
from streams.kafka.settings import KafkaSettings
from streams.settings import AdmissionServiceSettings

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
        work = publish_for_ever(self._kafka, self._settings.demand_seconds, self._tell, "what waits here is")
        self._task = asyncio.create_task(work, name="telling")
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.wait({self._task})

    @property
    def failure(self) -> Exception | None:
        """Why nothing is told any more: others would count our partitions as silent for ever."""
        return failure_of(self._task)

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

    async def _tell(self, producer: AIOKafkaProducer) -> None:
        """All that is new, and then that it was told. Raises KafkaError, TimeoutError, ValueError."""
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
