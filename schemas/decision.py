"""What admission decided: one Decision a named request, in the partition of its request, keyed by its name.

The headers alone carry what the window of names needs, so that an opening reads 50,000 names without parsing a value.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, WithJsonSchema

from schemas.codec import decode_object
from schemas.errors import Undecodable
from schemas.reading import first_fault

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


# Ahead of the work in a decision's record. Within a text its quotation marks would have backslashes before them, and
# nothing that stands before the work has a field of this name.
WORK_MARK: Final = ',"work":'
_WORK_OBJECT: Final = f"{WORK_MARK}{{".encode()

_WORK_SCHEMA: dict[str, Any] = {
    "anyOf": [{"type": "object"}, {"type": "string"}, {"type": "null"}],
    "default": None,
    "description": "The WorkItem, exactly as it is produced. A string with its JSON in records of earlier releases.",
    "title": "Work",
}


# Not frozen, which would take three times as long to make one: each request does.
@dataclass(slots=True, kw_only=True)
class Decision:
    """Final, and changed by nobody. `work` is the exact text that is produced, so that a takeover repeats it byte for
    byte. decode_decision() reads it, schemas.composed writes it."""

    __pydantic_config__ = ConfigDict(extra="ignore")

    schema_version: Literal[1] = 1
    number: Annotated[int, Field(description="Counts the decisions of this partition from 1.")]
    tenant: str
    key: str | None = None
    request_id: str
    job_id: str
    verdict: Verdict
    code: RejectionCode | None = None
    message: str | None = None
    payload_digest: str
    offset: Annotated[int, Field(description="Of the request in its partition.")]
    appended_ms: int
    price_gpu_seconds: float = 0.0
    bucket_after: Annotated[float | None, Field(description="Requests left in the tenant's own bucket.")] = None
    deadline_ms: int | None = None
    route: Route | None = None
    traceparent: Annotated[str | None, Field(description="What the work carries (W3C); whose trace it is.")] = None
    work: Annotated[str | None, WithJsonSchema(_WORK_SCHEMA)] = None

    def headers(self) -> tuple[tuple[str, bytes], ...]:
        return (
            (HEADER_NUMBER, str(self.number).encode()),
            (HEADER_DIGEST, self.payload_digest.encode()),
            (HEADER_APPENDED_MS, str(self.appended_ms).encode()),
            (HEADER_OFFSET, str(self.offset).encode()),
            (HEADER_JOB, self.job_id.encode()),
        )


_reader = TypeAdapter(Decision)


def decode_decision(data: bytes) -> Decision:
    """Read a decision, its work as the text that it was produced as. Raises Undecodable."""
    start = data.find(_WORK_OBJECT)
    head, work = (data, None) if start < 0 else (data[:start] + b"}", data[start + len(WORK_MARK) : -1])
    try:
        decision = _reader.validate_json(head)
    except ValidationError as error:
        raise Undecodable(first_fault(error)) from None  # as read_event() does
    if work is not None:
        decode_object(work)
        decision.work = work.decode()
    return decision
