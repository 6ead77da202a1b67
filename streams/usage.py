"""Who uses how much: counted for the metrics page as it is committed, and summed from the topics for a bill."""

from collections import Counter
from contextlib import aclosing
from copy import deepcopy
from dataclasses import dataclass, field
from uuid import UUID

from aiokafka import TopicPartition

from admission.state import Result
from schemas.tenancy import CURSOR_KEY, Counts, Cursor, Outstanding, TenantRecord, UsageRecord, holder_of
from schemas.tenants import Tenants
from schemas.topics import Catalogue
from streams.kafka.admin import require_topics
from streams.kafka.log import Record, read_log
from streams.kafka.settings import KafkaSettings
from streams.metrics import AdmissionMetrics


@dataclass(slots=True)
class UsageCounts:
    """What one transaction adds. Counted only once it is committed; after doubt it stays uncounted, never twice."""

    decisions: Counter[tuple[str, str]] = field(default_factory=Counter)
    jobs: Counter[tuple[str, str]] = field(default_factory=Counter)
    gpu_seconds: dict[str, float] = field(default_factory=dict)

    def decided(self, tenant: str, verdict: str, number: int, tenants: Tenants) -> None:
        """So many decisions of a tenant."""
        self.decisions[tenants.label_of(tenant), verdict] += number

    def ended(self, job: Outstanding, result: Result, tenants: Tenants) -> None:
        """`job`: what the result ended; a result that ends nothing is a second one, and not told."""
        label = tenants.label_of(job.tenant)
        self.jobs[label, result.status] += 1
        self.gpu_seconds[label] = self.gpu_seconds.get(label, 0.0) + getattr(result, "gpu_seconds", 0.0)

    def count_into(self, metrics: AdmissionMetrics) -> None:
        for (tenant, verdict), number in self.decisions.items():
            metrics.count("tenant_decisions_total", number, tenant=tenant, verdict=verdict)
        for (tenant, status), number in self.jobs.items():
            metrics.count("tenant_jobs_total", number, tenant=tenant, status=status)
        for tenant, seconds in self.gpu_seconds.items():
            metrics.count("tenant_gpu_seconds_total", max(0.0, seconds), tenant=tenant)


@dataclass(slots=True)
class Usage:
    """Of a tenant, all its keys included, or of one key of it: every count since the deployment's birth, of accounts
    that are open and of those that left and are retained."""

    tenant: str
    key: str | None
    accepted: int = 0
    rejected: int = 0
    cancelled: int = 0
    finished: int = 0
    ended: Counter[str] = field(default_factory=Counter)
    dropped: int = 0
    gpu_seconds: float = 0.0

    @property
    def outstanding(self) -> int:
        return self.accepted - self.finished - self.dropped

    def add(self, counts: Counts) -> None:
        self.accepted += counts.accepted
        self.rejected += counts.rejected
        self.cancelled += counts.cancelled
        self.finished += counts.finished
        self.ended.update(counts.ended)
        self.dropped += counts.dropped
        self.gpu_seconds += counts.gpu_seconds


class Bill:
    """Sums what the topics say, each in the order of its partitions: fold all of tenants first, then all of usage.

    Each decision and result counts once: an account stands in tenants until the transaction that moves its counts to
    usage. An account that is found in both has left in between, and usage has its last word.
    """

    def __init__(self) -> None:
        self._births: dict[int, UUID] = {}
        self._open: dict[tuple[int, str], TenantRecord] = {}
        self._left: dict[tuple[str, str | None], Usage] = {}

    def fold_tenants(self, record: Record) -> None:
        """Raises ValueError where a newer admission wrote it."""
        key, value = record.key or b"", record.value
        name = key.decode("utf-8", "replace")
        if key == CURSOR_KEY and value is not None:
            self._births[record.partition] = Cursor.model_validate_json(value).birth
        elif value is None:
            self._open.pop((record.partition, name), None)
        elif not key.startswith(b"\0"):
            self._open[record.partition, name] = TenantRecord.model_validate_json(value)

    def fold_usage(self, record: Record) -> None:
        """Raises ValueError where a newer admission wrote it."""
        left = UsageRecord.model_validate_json(record.value or b"")
        at = record.partition, (record.key or b"").decode("utf-8", "replace")
        same = self._open.get(at)
        if same is not None and same.since == left.since and self._births.get(record.partition) == left.birth:
            del self._open[at]
        _of(self._left, left.tenant, left.key).add(left)

    def usages(self) -> list[Usage]:
        """By tenant and key."""
        sums = deepcopy(self._left)
        for (_, name), counts in self._open.items():
            _of(sums, *holder_of(name)).add(counts)
        return [sums[holder] for holder in sorted(sums, key=lambda each: (each[0], each[1] or ""))]


async def read_usage(kafka: KafkaSettings, catalogue: Catalogue) -> list[Usage]:
    """By tenant and key, as committed now. Raises StreamError, and ValueError where a newer admission wrote."""
    await require_topics(kafka, [catalogue.tenants, catalogue.usage])
    bill = Bill()
    for topic, fold in ((catalogue.tenants, bill.fold_tenants), (catalogue.usage, bill.fold_usage)):
        partitions = [TopicPartition(topic, index) for index in range(catalogue.requests_partitions)]
        async with aclosing(read_log(kafka, partitions)) as records:
            async for record in records:
                fold(record)
    return bill.usages()


def _of(sums: dict[tuple[str, str | None], Usage], tenant: str, key: str | None) -> Usage:
    return sums.setdefault((tenant, key), Usage(tenant, key))
