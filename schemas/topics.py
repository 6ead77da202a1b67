"""The catalogue: every topic, group and transactional id of a deployment, from its prefix, pools and settings."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from schemas.pools import Pools
from schemas.request import LANES

_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS
_SEGMENT_MS_MIN = 60_000  # each is a few files of every partition
_OBSERVATIONS_SEGMENT_MS = 600_000  # its keys are written every few seconds, and every process reads it at its start
REQUEST_BYTES_MAX = 1 << 20
GATE_BYTES_MAX = 4096  # what the gate adds to a request that it passes on, with the batch around it
RECORD_BYTES_MAX = 4 << 20  # a decision carries the whole work item, and that the whole prompt


class TopicSettings(BaseSettings):
    """What the catalogue is made from. Every process of a deployment must have the same."""

    model_config = SettingsConfigDict(env_prefix="KILN_TOPICS_", frozen=True)

    prefix: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,60}$")] = Field(
        default="kiln", description="First part of every topic, group and transactional id of this deployment."
    )
    requests_partitions: Annotated[int, Field(ge=1, le=2048)] = Field(
        default=4,
        description="Of requests, decisions, tenants, usage, results and progress. Fixed at birth.",
    )
    tenant_topic_partitions: Annotated[int, Field(ge=1, le=64)] = Field(
        default=1, description="Of the requests topic of a tenant that has one of its own."
    )
    requests_retention_ms: Annotated[int, Field(gt=0)] = 7 * _DAY_MS
    decisions_retention_ms: Annotated[int, Field(gt=0)] = Field(
        default=7 * _DAY_MS, description="Above the dedupe window and above the longest outage of admission."
    )
    work_retention_ms: Annotated[int, Field(gt=0)] = Field(
        default=30 * _DAY_MS, description="Far above the worst backlog: what expires here is lost."
    )
    results_retention_ms: Annotated[int, Field(gt=0)] = 7 * _DAY_MS
    dead_letters_retention_ms: Annotated[int, Field(gt=0)] = 30 * _DAY_MS
    progress_retention_ms: Annotated[int, Field(gt=0)] = Field(
        default=_HOUR_MS, description="Of how far jobs were: read as it comes, and worth nothing later."
    )
    usage_retention_ms: Annotated[int, Field(gt=0)] = Field(
        default=90 * _DAY_MS, description="Of accounts that left: bill them before that."
    )
    uptime_retention_ms: Annotated[int, Field(gt=0)] = Field(
        default=90 * _DAY_MS, description="Of the hours of GPU consumers, which a bill of a pool is made of."
    )
    cancels_retention_ms: Annotated[int, Field(gt=0)] = Field(
        default=30 * _DAY_MS, description="Above the longest deadline."
    )


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic as it must be."""

    name: str
    partitions: int
    config: Mapping[str, str] = field(default_factory=dict)


def _deleted(retention_ms: int, bytes_max: int = RECORD_BYTES_MAX) -> dict[str, str]:
    """Kept for so long, and up to an eighth longer: only whole segments are deleted, and without a word a broker begins
    one a week, so that a prompt of seven days stayed for fourteen."""
    return {
        "cleanup.policy": "delete",
        "retention.ms": str(retention_ms),
        "segment.ms": str(max(_SEGMENT_MS_MIN, min(retention_ms // 8, 7 * _DAY_MS))),
        "max.message.bytes": str(bytes_max),
    }


_COMPACTED = {
    "cleanup.policy": "compact",
    "max.message.bytes": str(RECORD_BYTES_MAX),
    "segment.ms": str(_HOUR_MS),
    "min.cleanable.dirty.ratio": "0.1",
}


class Catalogue:
    """Names and settings of everything in Kafka that belongs to one deployment.

    `own_topics` are the tenants that have a requests topic of their own: only who creates or reads those needs them.
    """

    def __init__(self, settings: TopicSettings, pools: Pools, own_topics: Iterable[str] = ()) -> None:
        self.settings = settings
        self.pools = pools.pools
        self.own_topics = tuple(own_topics)
        prefix = settings.prefix
        self.requests = f"{prefix}.requests"
        self.decisions = f"{prefix}.decisions"
        self.tenants = f"{prefix}.tenants"
        self.usage = f"{prefix}.usage"
        self.results = f"{prefix}.results"
        self.dead_letters = f"{prefix}.dead-letters"
        self.progress = f"{prefix}.progress"
        self.cancels = f"{prefix}.cancels"
        self.control = f"{prefix}.control"
        self.observations = f"{prefix}.observations"
        self.uptime = f"{prefix}.uptime"
        self.admission_group = f"{prefix}.admission"
        self.gate_group = f"{prefix}.gate"

    @property
    def requests_partitions(self) -> int:
        return self.settings.requests_partitions

    def tenant_requests(self, tenant: str) -> str:
        """The topic to which only this tenant may write."""
        return f"{self.requests}.{tenant}"

    def work(self, pool: str, lane: str) -> str:
        return f"{self.settings.prefix}.work.{pool}.{lane}"

    def ledger(self, pool: str) -> str:
        return f"{self.settings.prefix}.ledger.{pool}"

    def gpu_group(self, pool: str) -> str:
        return f"{self.settings.prefix}.gpu.{pool}"

    def admission_transactional_id(self, partition: int) -> str:
        """Named after the input partition, so that a new owner fences the former one (case AIO-10)."""
        return f"{self.settings.prefix}.admission.{partition}"

    def gpu_transactional_id(self, pool: str, index: int) -> str:
        return f"{self.settings.prefix}.gpu.{pool}.{index}"

    def specs(self) -> Iterator[TopicSpec]:
        """Every topic, in the order in which they are created."""
        s, home = self.settings, self.settings.requests_partitions
        appended = {"message.timestamp.type": "LogAppendTime"}
        yield TopicSpec(self.requests, home, _deleted(s.requests_retention_ms, REQUEST_BYTES_MAX) | appended)
        yield TopicSpec(self.decisions, home, _deleted(s.decisions_retention_ms))
        yield TopicSpec(self.tenants, home, _COMPACTED)
        yield TopicSpec(self.usage, home, _deleted(s.usage_retention_ms))
        yield TopicSpec(self.results, home, _deleted(s.results_retention_ms))
        yield TopicSpec(self.dead_letters, 1, _deleted(s.dead_letters_retention_ms))
        yield TopicSpec(self.progress, home, _deleted(s.progress_retention_ms))
        yield TopicSpec(
            self.cancels, 1, _deleted(s.cancels_retention_ms) | {"cleanup.policy": "compact,delete"} | appended
        )
        yield TopicSpec(self.control, 1, _COMPACTED | appended)
        yield TopicSpec(self.observations, 1, _COMPACTED | {"segment.ms": str(_OBSERVATIONS_SEGMENT_MS)})
        yield TopicSpec(self.uptime, 1, _deleted(s.uptime_retention_ms) | {"cleanup.policy": "compact,delete"})
        for tenant in self.own_topics:
            most = REQUEST_BYTES_MAX - GATE_BYTES_MAX
            config = _deleted(s.requests_retention_ms, most) | appended
            yield TopicSpec(self.tenant_requests(tenant), s.tenant_topic_partitions, config)
        for name, pool in self.pools.items():
            for lane in LANES:
                yield TopicSpec(self.work(name, lane), pool.partitions, _deleted(s.work_retention_ms))
            yield TopicSpec(self.ledger(name), pool.partitions, _COMPACTED)
