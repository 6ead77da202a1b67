"""Which requests are cancelled already: the cancels topic, followed."""

from dataclasses import replace
from typing import Self

from admission.world import World
from schemas.topics import Catalogue
from streams.cancels import CancelTimes
from streams.kafka.settings import KafkaSettings
from streams.kafka.view import CompactedView


class CancelsFact:
    name = "cancels"

    def __init__(self, kafka: KafkaSettings, catalogue: Catalogue) -> None:
        self._times = CancelTimes(catalogue.settings.cancels_retention_ms)
        self._view = CompactedView(kafka, catalogue.cancels, self._times.fold)

    async def __aenter__(self) -> Self:
        await self._view.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._view.stop()

    @property
    def problem(self) -> str | None:
        return None if self._view.ready else "cancels are not read to their end yet"

    @property
    def failure(self) -> Exception | None:
        return self._view.failure

    @property
    def age_seconds(self) -> float:
        return self._view.age_seconds

    def into(self, world: World) -> World:
        return replace(world, cancelled=self._times.known)
