"""What admission decided: one Decision a named request, in the partition of its request, keyed by its name.

The headers alone carry what the window of names needs, so that an opening reads 50,000 names without parsing a value.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

HEADER_NUMBER = "n"
HEADER_DIGEST = "digest"
HEADER_APPENDED_MS = "at"
HEADER_OFFSET = "offset"
HEADER_JOB = "job"

RejectionCode = Literal[
    "invalid_request",
    "unsupported_schema",
    "too_large",
    "prompt_too_long",
    "invalid_dimensions",
    "invalid_seed",
    "unknown_tenant",
    "unknown_config",
    "config_version_mismatch",
    "config_retired",
    "policy_violation",
    "paused",
    "exceeds_vram",
    "deadline_infeasible",
    "rate_limited",
    "overloaded",
    "pool_unavailable",
]
DeadLetterReason = Literal["malformed", "unproven", "conflicting_duplicate"]
Verdict = Literal["accepted", "rejected", "cancelled"]


class Route(BaseModel):
    """Where an accepted request goes. Stored, so that a later placement cannot split it."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    pool: str
    lane: str
    partition: int


class Decision(BaseModel):
    """Final. `work` is the exact text that is produced, so that a takeover repeats it byte for byte."""

    model_config = ConfigDict(extra="ignore", frozen=True, hide_input_in_errors=True)  # it may be a prompt

    schema_version: Literal[1] = 1
    number: int = Field(description="Counts the decisions of this partition from 1.")
    tenant: str
    key: str | None = None
    request_id: str
    job_id: str
    verdict: Verdict
    code: RejectionCode | None = None
    message: str | None = None
    payload_digest: str
    offset: int = Field(description="Of the request in its partition.")
    appended_ms: int
    price_gpu_seconds: float = 0.0
    bucket_after: float | None = Field(default=None, description="Requests left in the tenant's own bucket.")
    deadline_ms: int | None = None
    route: Route | None = None
    work: str | None = None

    def headers(self) -> tuple[tuple[str, bytes], ...]:
        return (
            (HEADER_NUMBER, str(self.number).encode()),
            (HEADER_DIGEST, self.payload_digest.encode()),
            (HEADER_APPENDED_MS, str(self.appended_ms).encode()),
            (HEADER_OFFSET, str(self.offset).encode()),
            (HEADER_JOB, self.job_id.encode()),
        )
