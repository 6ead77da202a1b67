"""What admission remembers, in `tenants`: a record a tenant or key of one, one a job outstanding, one cursor.

`usage` has the last counts of the tenants and keys that left it.
"""

from dataclasses import dataclass
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


def key_of(tenant: str, key: str) -> str:
    """Whose account a tenant's key is. A tenant's name has no slash, so the first one splits it."""
    return f"{tenant}/{key}"


def holder_of(name: str) -> tuple[str, str | None]:
    """(tenant, key) of an account's name; no key: the tenant's own."""
    tenant, slash, key = name.partition("/")
    return tenant, key if slash else None


@dataclass(frozen=True, slots=True)
class Level:
    """GPU-seconds in a bucket that holds `burst`. Only jobs of decisions from number `since` on were paid from it."""

    tokens: float
    burst: float
    since: int


@dataclass(frozen=True, slots=True)
class Use:
    """What jobs of decisions from number `since` on took of a day or a month, counted from 1970 (UTC)."""

    span: int
    since: int
    requests: int = 0
    gpu_seconds: float = 0.0


class Counts(BaseModel):
    """Of one account: accepted = finished + dropped + outstanding."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    accepted: int = 0
    rejected: int = 0
    cancelled: int = Field(default=0, description="Decided cancelled at the door.")
    finished: int = 0
    ended: dict[str, int] = Field(default_factory=dict, description="Of the finished: how many by status.")
    dropped: int = Field(default=0, description="Accepted, and given up without a result.")
    gpu_seconds: float = Field(default=0.0, description="Used by those that finished.")


class TenantRecord(Counts):
    """Quota and usage within one requests partition, of a tenant or of a key of one."""

    schema_version: Literal[1] = 1
    tokens: float = Field(description="Requests, at `as_of_ms` of quota time, as GPU-seconds are.")
    as_of_ms: int
    gpu: Level | None = None
    day: Use | None = None
    month: Use | None = None
    since: int = Field(default=0, description="The number of the decision that opened the account.")
    leaves_ms: int | None = Field(default=None, description="It is as good as a new one then, and leaves.")


class UsageRecord(Counts):
    """In `usage`: the counts of an account that left, written once, with the tombstone of its record.

    A later account of the same tenant counts anew. `birth` and `since` tell it from that one.
    """

    schema_version: Literal[1] = 1
    tenant: str
    key: str | None = None
    birth: UUID
    since: int
    until_ms: int = Field(description="Quota time at which it left.")


# Not frozen, which would take three times as long to make one: each accepted request does.
@dataclass(slots=True, kw_only=True)
class Outstanding:
    """A job accepted whose result was not folded yet; tombstoned when it is. Changed by nobody.

    It holds its request's name for as long, so it carries all of it: its decision may have left the log by then.
    schemas.composed writes it.
    """

    __pydantic_config__ = ConfigDict(extra="ignore")

    schema_version: Literal[1] = 1
    tenant: str
    key: str | None = None
    request_id: str
    pool: Annotated[str, Field(description="Empty in records from before it was kept.")] = ""
    lane: str
    price_gpu_seconds: float
    deadline_ms: int
    payload_digest: str
    number: int
    offset: int
    appended_ms: int
