"""Accepted work goes to the GPU pools: outside transactions, at least once, always the same bytes.

A commit marker would leave a lag of 1 on each partition, and a pool could never scale to zero. So work is written by an
idempotent producer without transactions; what may stand twice is equal, on one partition, and known by its job id.
"""

import re
from collections.abc import Sequence

from schemas.decision import Decision
from schemas.errors import told
from schemas.topics import Catalogue
from schemas.work import HEADER_DEADLINE_MS, HEADER_JOB, HEADER_SCHEMA
from streams.entering import trace_headers
from streams.kafka.patient import PatientProducer
from streams.kafka.sending import Output
from streams.kafka.settings import KafkaSettings
from streams.metrics import AdmissionMetrics

# A quotation mark within a text of the sender's has a backslash before it, so this is a name and no text.
_OURS = '{"schema_version":1,'  # as this release begins an item; to search others takes longer than all their headers
_VERSION = re.compile(r'[{,]"schema_version":(\d+)')


class Emission:
    """The one producer of work in this process; all owners share it.

    A failure concerns nobody's lease: the producer is replaced and the same decisions are produced again.
    """

    def __init__(
        self,
        kafka: KafkaSettings,
        catalogue: Catalogue,
        metrics: AdmissionMetrics,
        *,
        timeout_seconds: float,
        backoff_seconds_max: float,
    ) -> None:
        self._catalogue = catalogue
        self._metrics = metrics
        self._producer = PatientProducer(
            kafka, timeout_seconds=timeout_seconds, backoff_seconds_max=backoff_seconds_max
        )
        self._failing: dict[int, str] = {}

    async def emit(self, decisions: Sequence[Decision], *, partition: int) -> None:
        """Produce the work of `decisions` of a requests partition, and return when every record is acknowledged.

        Tries for ever; `problem` is the sentence of it meanwhile. A cancel ends it and leaves the outcome unknown, as
        a crash would."""
        work = [self._output(decision) for decision in decisions if decision.work is not None]
        self._metrics.set("not_emitted", len(work), partition=str(partition))

        def failed(error: Exception) -> None:
            self._failing[partition] = f"work cannot be produced ({told(error)}); trying again"
            self._metrics.count("emission_retries_total")

        try:
            if work:
                await self._producer.write(work, failed)
            self._metrics.set("not_emitted", 0, partition=str(partition))
        finally:
            self._failing.pop(partition, None)

    @property
    def problem(self) -> str | None:
        """The sentence of an emission that fails right now."""
        return next(iter(self._failing.values()), None)

    async def close(self) -> None:
        """Bounded. Nothing is flushed: what was not acknowledged is produced again by the next owner."""
        await self._producer.close()

    def _output(self, decision: Decision) -> Output:
        assert decision.route is not None
        assert decision.work is not None
        topic = self._catalogue.work(decision.route.pool, decision.route.lane)
        key, value = decision.job_id.encode(), decision.work.encode()
        return Output(topic, decision.route.partition, key, value, work_headers(decision) + trace_headers(decision))


def work_headers(decision: Decision) -> tuple[tuple[str, bytes], ...]:
    """What WorkItem.headers() of the decided work gives, without reading the item again. The version is the item's own,
    so that a takeover after an upgrade repeats the same record."""
    assert decision.work is not None
    if decision.work.startswith(_OURS):
        version = b"1"
    else:
        found = _VERSION.search(decision.work)
        version = found[1].encode() if found else b"1"
    return (
        (HEADER_JOB, decision.job_id.encode()),
        (HEADER_DEADLINE_MS, str(decision.deadline_ms).encode()),
        (HEADER_SCHEMA, version),
    )
