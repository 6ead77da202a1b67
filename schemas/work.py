"""What admission asks of a GPU consumer: one WorkItem a record of work.<pool>.<lane>, keyed by its job id.

The headers of a work record never change form, so that a consumer of any version can hold what it cannot read yet.
"""

from typing import Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from schemas.config import GenerationConfig
from schemas.reading import read_held_event
from schemas.request import Lane

HEADER_JOB = "kiln-job"
HEADER_DEADLINE_MS = "kiln-deadline-ms"
HEADER_SCHEMA = "kiln-schema"


class WorkItem(BaseModel):
    """Everything a GPU consumer needs: it looks nothing up elsewhere, so that a later change cannot reach it."""

    model_config = ConfigDict(extra="ignore", frozen=True, hide_input_in_errors=True)  # it may be a prompt

    schema_version: Literal[1] = 1
    job_id: str
    tenant: str
    request_id: str
    retry_of: str | None = None
    prompt: str
    negative_prompt: str = ""
    config: GenerationConfig
    config_hash: str
    degraded_from: str | None = Field(
        default=None, description="`name@version` of the dearer config that was asked for; the pool had too much to do."
    )
    seed: int = Field(description="Of the first picture; picture k is drawn with seed + k.")
    images: int
    lane: Lane
    deadline: AwareDatetime
    results_partition: int
    price_gpu_seconds: float
    accepted_at: AwareDatetime
    appended_ms: int | None = Field(
        default=None, description="LogAppendTime of the request: an older cancel does not reach it."
    )
    metadata: dict[str, str] = Field(default_factory=dict)

    def headers(self) -> tuple[tuple[str, bytes], ...]:
        deadline_ms = str(int(self.deadline.timestamp() * 1000))
        return (
            (HEADER_JOB, self.job_id.encode()),
            (HEADER_DEADLINE_MS, deadline_ms.encode()),
            (HEADER_SCHEMA, str(self.schema_version).encode()),
        )


def decode_work(data: bytes) -> WorkItem:
    """Read a work item. Raises UnknownVersion where a newer admission wrote it, Undecodable on anything else."""
    return read_held_event(WorkItem, data, "work item")
