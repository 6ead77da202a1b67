"""Which requests were cancelled, and when: the cancels topic, kept in memory for as long as it can reach a job."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Self

from gpu_consumer.backlog import Job
from schemas.topics import Catalogue
from streams.kafka.log import Record
from streams.kafka.settings import KafkaSettings
from streams.kafka.view import CompactedView


class Cancels:
    """An async context manager. A broker in trouble makes the view old; `failure` says why it ended for good.

    `heard` is told the name of each request of which a cancel comes in.
    """

    def __init__(self, kafka: KafkaSettings, catalogue: Catalogue, *, heard: Callable[[bytes], None]) -> None:
        self._view = CompactedView(kafka, catalogue.cancels, self.fold)
        self._kept_ms = catalogue.settings.cancels_retention_ms
        self._heard = heard
        self._known: OrderedDict[bytes, int] = OrderedDict()  # name -> LogAppendTime of the newest, oldest first

    async def __aenter__(self) -> Self:
        await self._view.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._view.stop()

    @property
    def failure(self) -> Exception | None:
        return self._view.failure

    def __len__(self) -> int:
        return len(self._known)

    def reaches(self, job: Job) -> bool:
        """A cancel of its request is known that is not older than the request."""
        cancelled_ms = None if job.name is None else self._known.get(job.name)
        if cancelled_ms is None or job.work.item is None:
            return False
        item = job.work.item
        appended_ms = item.accepted_at.timestamp() * 1000 if item.appended_ms is None else item.appended_ms
        return appended_ms <= cancelled_ms

    def fold(self, record: Record) -> None:
        if record.key is None:
            return
        self._known.pop(record.key, None)
        if record.value is None:
            return
        self._known[record.key] = record.timestamp
        # The topic keeps a cancel for longer than the longest deadline: what it has dropped can reach nothing.
        while next(iter(self._known.values())) < record.timestamp - self._kept_ms:
            self._known.popitem(last=False)
        self._heard(record.key)
