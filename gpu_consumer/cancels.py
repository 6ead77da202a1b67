"""Which jobs a cancel reaches: the cancels topic, followed."""

from collections.abc import Callable

from gpu_consumer.backlog import Job
from schemas.topics import Catalogue
from streams.cancels import CancelTimes
from streams.kafka.followed import Followed
from streams.kafka.log import Record
from streams.kafka.settings import KafkaSettings
from streams.kafka.view import CompactedView


class Cancels(Followed):
    """`heard` is told the name of each request of which a cancel comes in."""

    def __init__(self, kafka: KafkaSettings, catalogue: Catalogue, *, heard: Callable[[bytes], None]) -> None:
        super().__init__(CompactedView(kafka, catalogue.cancels, self.fold))
        self._times = CancelTimes(catalogue.settings.cancels_retention_ms)
        self._heard = heard

    def __len__(self) -> int:
        return len(self._times.known)

    def reaches(self, job: Job) -> bool:
        """A cancel of its request is known that is not older than the request."""
        cancelled_ms = None if job.name is None else self._times.known.get(job.name)
        requested_ms = job.requested_ms
        return cancelled_ms is not None and requested_ms is not None and requested_ms <= cancelled_ms

    def fold(self, record: Record) -> None:
        self._times.fold(record)
        if record.key in self._times.known:
            self._heard(record.key)
