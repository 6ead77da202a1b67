"""The result of a job, from its work item and what its pictures cost. Pure: the time of the end is passed in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypedDict

from gpu_consumer.engine.protocol import Picture, Ready, Share
from gpu_consumer.intake import Names
from gpu_consumer.store.outcomes import StoredArtifact
from schemas.cost import Price
from schemas.result import Artifact, Cancelled, ConfigUsed, Environment, Expired, Failed, FailureCode, Succeeded
from schemas.work import WorkItem


@dataclass(slots=True)
class Run:
    """What a job's pictures came to so far: stages summed, the highest memory, the emptiest batch, the smallest."""

    gpu_seconds: float = 0.0
    timings: dict[str, float] = field(default_factory=dict)
    peak_vram_bytes: int = 0
    batch_size: int = 0
    bucket: int = 0
    attempt: int = 1

    def add(self, share: Share) -> None:
        """Book what a picture cost, whether there is one or not."""
        self.gpu_seconds += share.gpu_seconds
        for stage, seconds in share.timings.items():
            self.timings[stage] = self.timings.get(stage, 0.0) + seconds
        self.peak_vram_bytes = max(self.peak_vram_bytes, share.peak_vram_bytes)
        self.batch_size = min(self.batch_size or share.batch_size, share.batch_size)
        self.bucket = min(self.bucket or share.bucket, share.bucket)


def environment(ready: Ready) -> Environment:
    return Environment(device=ready.device.product, device_uuid=ready.device.uuid or None, libraries=ready.libraries)


def succeeded(
    item: WorkItem,
    pictures: Mapping[int, Picture],
    stored: Sequence[StoredArtifact],
    run: Run,
    ran_on: Environment,
    price: Price,
    finished_at: datetime,
) -> Succeeded:
    """`stored` in the order of the pictures' numbers."""
    artifacts = tuple(
        Artifact(
            uri=place.uri,
            sha256=place.sha256,
            bytes=place.bytes,
            content_type=picture.content_type,
            width=picture.width,
            height=picture.height,
            frames=picture.frames,
            duration_seconds=picture.duration_seconds,
            seed=item.seed + n,
            warnings=picture.warnings,
        )
        for (n, picture), place in zip(sorted(pictures.items()), stored, strict=True)
    )
    return Succeeded(
        **_common(item.job_id, item, finished_at),
        config=_config(item),
        degraded_from=item.degraded_from,
        **_charged(run.gpu_seconds, price),
        attempt=run.attempt,
        artifacts=artifacts,
        seed=item.seed,
        timings=run.timings,
        batch_size=run.batch_size,
        bucket=min((picture.bucket for picture in pictures.values()), default=run.bucket),
        environment=ran_on,
        peak_vram_bytes=run.peak_vram_bytes,
    )


def failed(
    item: WorkItem,
    code: FailureCode,
    message: str,
    run: Run,
    ran_on: Environment | None,
    price: Price,
    finished_at: datetime,
) -> Failed:
    return Failed(
        **_common(item.job_id, item, finished_at),
        config=_config(item),
        degraded_from=item.degraded_from,
        **_charged(run.gpu_seconds, price),
        attempt=run.attempt,
        code=code,
        message=message,
        environment=ran_on,
    )


def expired(
    job_id: str,
    names: Names,
    item: WorkItem | None,
    deadline_ms: int,
    message: str,
    gpu_seconds: float,
    price: Price,
    finished_at: datetime,
) -> Expired:
    """Also of a work item of a version that this consumer cannot run."""
    return Expired(
        **_common(job_id, names, finished_at),
        **_charged(gpu_seconds, price),
        message=message,
        deadline=datetime.fromtimestamp(deadline_ms / 1000, tz=UTC),
        config=None if item is None else _config(item),
    )


def cancelled(
    job_id: str,
    names: Names,
    item: WorkItem | None,
    message: str,
    gpu_seconds: float,
    price: Price,
    finished_at: datetime,
) -> Cancelled:
    """Also of a work item of a version that this consumer cannot run."""
    return Cancelled(
        **_common(job_id, names, finished_at),
        **_charged(gpu_seconds, price),
        message=message,
        config=None if item is None else _config(item),
    )


class _Common(TypedDict):
    tenant: str
    request_id: str
    job_id: str
    retry_of: str | None
    metadata: dict[str, str]
    finished_at: datetime


class _Charged(TypedDict):
    gpu_seconds: float
    cost_usd: float
    pool: str


def _charged(gpu_seconds: float, price: Price) -> _Charged:
    """What is billed. It is stored with the outcome: a price that changes later changes no result."""
    return _Charged(gpu_seconds=gpu_seconds, cost_usd=float(price.of(gpu_seconds)), pool=price.pool)


def _common(job_id: str, names: Names | WorkItem, finished_at: datetime) -> _Common:
    """What every result says."""
    return _Common(
        tenant=names.tenant,
        request_id=names.request_id,
        job_id=job_id,
        retry_of=names.retry_of,
        metadata=names.metadata,
        finished_at=finished_at,
    )


def _config(item: WorkItem) -> ConfigUsed:
    config = item.config
    return ConfigUsed(name=config.name, version=config.version, hash=item.config_hash, model_digest=config.model.digest)
