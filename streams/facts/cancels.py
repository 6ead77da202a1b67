"""Which requests are cancelled already: the cancels topic, followed."""

from dataclasses import replace

from admission.world import World
from schemas.topics import Catalogue
from streams.cancels import CancelTimes
from streams.kafka.followed import Followed
from streams.kafka.settings import KafkaSettings
from streams.kafka.view import CompactedView


class CancelsFact(Followed):
    name = "cancels"

    def __init__(self, kafka: KafkaSettings, catalogue: Catalogue) -> None:
        self._times = CancelTimes(catalogue.settings.cancels_retention_ms)
        super().__init__(CompactedView(kafka, catalogue.cancels, self._times.fold))

    @property
    def problem(self) -> str | None:
        return None if self._view.ready else "cancels are not read to their end yet"

    def into(self, world: World) -> World:
        return replace(world, cancelled=self._times.known)
