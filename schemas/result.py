"""How a request ended: exactly one GenerationResult a request, in results, keyed by its tenant.

Readers tolerate fields they do not know; `parse_result` does.
"""

from datetime import datetime
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from schemas.decision import RejectionCode

FailureCode = Literal[
    "out_of_memory", "non_finite", "blank_output", "generation_error", "engine_death", "undecodable_work"
]


class _Event(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Artifact(_Event):
    """One picture or video in the store."""

    uri: str
    sha256: str
    bytes: int
    content_type: str
    width: int
    height: int
    frames: int = 1
    duration_seconds: float | None = None
    seed: int
    warnings: tuple[str, ...] = ()


class ConfigUsed(_Event):
    """The configuration that a job ran with."""

    name: str
    version: int
    hash: str
    model_digest: str


class Environment(_Event):
    """What it ran on: a picture is reproducible on the same device and libraries."""

    device: str
    device_uuid: str | None = None
    libraries: dict[str, str] = Field(default_factory=dict)


class _Result(_Event):
    schema_version: Literal[1] = 1
    tenant: str
    request_id: str
    job_id: str
    retry_of: str | None = None
    metadata: dict[str, str] = Field(default_factory=dict)
    finished_at: datetime


class _Charged(_Result):
    gpu_seconds: float = Field(default=0.0, description="This job's share of the GPU time of its batches.")
    cost_usd: float | None = Field(
        default=None,
        description="At the price of its pool when it ended: USD, rounded to a millionth, half to even. Absent where "
        "an earlier release ended it, or admission.",
    )
    pool: str | None = Field(default=None, description="Whose GPUs it ran on, or waited for.")


class _Run(_Charged):
    config: ConfigUsed
    degraded_from: str | None = Field(
        default=None,
        description="`name@version` of the config that was asked for, where a cheaper one stood in under overload.",
    )
    attempt: int = Field(default=1, description="1 for the first run.")


class Succeeded(_Run):
    status: Literal["succeeded"] = "succeeded"
    artifacts: tuple[Artifact, ...]
    seed: int
    timings: dict[str, float] = Field(default_factory=dict, description="Seconds a stage; `wait` is before the run.")
    batch_size: int = Field(description="Pictures in the batch, padding left out.")
    bucket: int = Field(description="The padded size the batch ran at.")
    environment: Environment
    peak_vram_bytes: int
    expires_at: datetime | None = Field(default=None, description="Reserved.")
    moderation: dict[str, str] | None = Field(default=None, description="Reserved.")


class Failed(_Run):
    status: Literal["failed"] = "failed"
    code: FailureCode
    message: str
    environment: Environment | None = None


class Rejected(_Result):
    status: Literal["rejected"] = "rejected"
    code: RejectionCode
    message: str
    field: str | None = None
    retry_after_seconds: float | None = None


class Cancelled(_Charged):
    status: Literal["cancelled"] = "cancelled"
    message: str
    config: ConfigUsed | None = Field(default=None, description="Absent where it was not admitted, or not readable.")


class Expired(_Charged):
    status: Literal["expired"] = "expired"
    message: str
    deadline: datetime
    config: ConfigUsed | None = Field(default=None, description="Absent where the work was not readable.")


GenerationResult: TypeAlias = Annotated[
    Succeeded | Failed | Rejected | Cancelled | Expired, Field(discriminator="status")
]
RESULT: TypeAdapter[Succeeded | Failed | Rejected | Cancelled | Expired] = TypeAdapter(GenerationResult)


def parse_result(data: bytes) -> Succeeded | Failed | Rejected | Cancelled | Expired:
    """Read a result event. Raises pydantic.ValidationError where it is none of ours."""
    return RESULT.validate_json(data)
