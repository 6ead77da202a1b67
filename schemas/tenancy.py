"""What admission remembers of its tenants, in `tenants`: one record a tenant, one a job outstanding, one cursor."""

from typing import Annotated, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

CURSOR_KEY = b"\x00cursor"  # a tenant's name has no NUL, so no tenant can have this key
JOB_PREFIX = b"\x00job/"


def job_key(job_id: str) -> bytes:
    return JOB_PREFIX + job_id.encode()


class Cursor(BaseModel):
    """How far a requests partition has come. Written in every transaction of its owner."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    schema_version: Literal[1] = 1
    birth: UUID = Field(description="Minted by the first opening of the empty partition.")
    next: Annotated[int, Field(ge=0)] = Field(description="The first request offset not decided.")
    emitted_through: Annotated[int, Field(ge=0)] = Field(description="Requests below it have their work produced.")
    clock_ms: int = Field(description="Quota time: LogAppendTime that never goes back.")
    results_next: Annotated[int, Field(ge=0)] = Field(description="The first result offset not folded.")
    decided: int = Field(default=0, description="The number of the newest decision.")
    emitted: int = Field(default=0, description="The number of the newest decision whose work is produced.")
    oldest: int = Field(default=1, description="The number of the oldest decision the window needs.")


class TenantRecord(BaseModel):
    """A tenant's quota and usage within one requests partition."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    schema_version: Literal[1] = 1
    tokens: float
    as_of_ms: int
    accepted: int = 0
    rejected: int = 0
    cancelled: int = Field(default=0, description="Decided cancelled at the door.")
    finished: int = 0
    dropped: int = Field(default=0, description="Accepted, and given up without a result.")
    gpu_seconds: float = 0.0


class Outstanding(BaseModel):
    """A job accepted whose result was not folded yet; tombstoned when it is.

    It holds its request's name for as long, so it carries all of it: its decision may have left the log by then.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    schema_version: Literal[1] = 1
    tenant: str
    request_id: str
    pool: str = Field(default="", description="Empty in records from before it was kept.")
    lane: str
    price_gpu_seconds: float
    deadline_ms: int
    payload_digest: str
    number: int
    offset: int
    appended_ms: int
