"""What operators say, as far as it concerns a consumer: what was dropped, whether its pool is paused, and which tenants
have a quota of theirs."""

import logging
import math
from collections.abc import Callable, Mapping
from typing import Self

from gpu_consumer.backlog import Job
from gpu_consumer.clock import Clock
from schemas.control import Subject
from schemas.stops import drop_of, ends_ms, in_words, of_config, of_tenant, pause_of
from schemas.tenants import Quota
from schemas.topics import Catalogue
from streams.control import Controls
from streams.kafka.followed import Followed
from streams.kafka.log import Record
from streams.kafka.settings import KafkaSettings
from streams.kafka.view import CompactedView

_LOG = logging.getLogger(__name__)


class Stops(Followed):
    """The control topic, followed. A broker in trouble, or a topic that is missing, leaves standing what was heard.

    `changed` is called when something else is in force than before; `quotas` before it, with all of them by tenant.
    """

    def __init__(
        self,
        kafka: KafkaSettings,
        catalogue: Catalogue,
        pool: str,
        clock: Clock,
        *,
        wait_seconds: float,
        changed: Callable[[], None],
        quotas: Callable[[Mapping[str, Quota]], None] = lambda _: None,
    ) -> None:
        self._controls = Controls()
        super().__init__(CompactedView(kafka, catalogue.control, self.fold))
        self._pool = Subject("pool", pool)
        self._clock = clock
        self._wait_seconds = wait_seconds
        self._wait_until = 0.0
        self._changed = changed
        self._quotas = quotas

    async def __aenter__(self) -> Self:
        self._wait_until = self._clock.steady() + self._wait_seconds
        return await super().__aenter__()

    @property
    def read(self) -> bool:
        """What was said before the start is known, or was waited for long enough: a pool must not be kept from its work
        by what tells of pauses."""
        return self._view.ready or self._clock.steady() >= self._wait_until

    @property
    def paused(self) -> str | None:
        """The pause of the pool that is in force, in words."""
        found = pause_of(self._controls.paused, (self._pool,), self._clock.wall_ms())
        return None if found is None else in_words(found[0], "is paused", found[1].reason)

    def paused_until(self) -> float | None:
        """Of the steady clock, infinite where only a person ends it. None: the pool is not paused."""
        found = pause_of(self._controls.paused, (self._pool,), self._clock.wall_ms())
        if found is None:
            return None
        end_ms = ends_ms(found[1])
        return end_ms if math.isinf(end_ms) else self._clock.steady_of(math.ceil(end_ms))

    def reaches(self, job: Job) -> str | None:
        """Which drop, in words: one of its tenant, its config or its pool that is not older than its request."""
        item, requested_ms = job.work.item, job.requested_ms
        if item is None or requested_ms is None or not self._controls.dropped:
            return None
        subjects = (*of_tenant(item.tenant), *of_config(item.config), self._pool)
        drop = drop_of(self._controls.dropped, subjects, requested_ms)
        return None if drop is None else in_words(drop[0], "was dropped", drop[1].reason)

    def fold(self, record: Record) -> None:
        before, paused = self._controls.changes, self.paused
        if (passed_over := self._controls.fold(record)) is not None:
            _LOG.warning("%s", passed_over.message)
        if self._controls.changes == before:
            return
        if self.paused != paused:
            _LOG.info("%s", self.paused or in_words(self._pool, "is not paused any more"))
        self._quotas(self._controls.quotas)
        self._changed()
