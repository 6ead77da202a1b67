"""From a record of work to a job, or to what is wrong with it. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, ValidationError

from schemas.codec import decode_object
from schemas.config import GenerationConfig
from schemas.errors import Undecodable, UnknownVersion
from schemas.trace import TraceContext, trace_of
from schemas.work import HEADER_DEADLINE_MS, HEADER_JOB, WorkItem, decode_work
from streams.kafka.batches import HEADER_UNREADABLE

_DEADLINE_MS_MAX = 253_402_300_799_000  # the year 9999, beyond which no datetime goes


class Step(Enum):
    """What an offset is to the owner of a lane."""

    OLD = auto()  # taken before: drop it
    NEXT = auto()
    SEEK = auto()  # something lies between: ask again from our own next
    HOLE = auto()  # asked again, and nothing lies between: a marker, an aborted or a removed record


@dataclass(slots=True)
class Cursor:
    """The owner's own next offset of a lane. It trusts no position; a hole is believed when a seek has proven it."""

    next: int
    sought: int | None = None

    def look(self, offset: int) -> Step:
        if offset < self.next:
            return Step.OLD
        if offset == self.next:
            return Step.NEXT
        if self.sought == self.next:
            return Step.HOLE
        self.sought = self.next
        return Step.SEEK


class Names(BaseModel):
    """What must be known of a job to say how it ended, in a work item of any version."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    tenant: str
    request_id: str
    results_partition: int
    retry_of: str | None = None
    metadata: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class Work:
    """A named job. Without an item, or with a problem, it is held: this consumer is too old to run it."""

    job_id: str
    deadline_ms: int
    item: WorkItem | None
    names: Names | None
    problem: str | None = None
    trace: TraceContext | None = None


def read_work(value: bytes | None, headers: Iterable[tuple[str, bytes | None]], results_partitions: int) -> Work:
    """Raises Undecodable, for a dead letter, where the record names no job or cannot be read by any version.

    A named job whose fields are not understood may be of a newer release: a config's new sampler, or a new field.
    """
    headers = list(headers)
    named = {name: value for name, value in headers if value is not None}
    trace = trace_of(headers)
    if (unreadable := named.get(HEADER_UNREADABLE)) is not None:
        raise Undecodable(f"the work record is not what was sent: {unreadable.decode('utf-8', 'replace')}")
    if value is None:
        raise Undecodable("the work record has no value")
    try:
        item = decode_work(value)
    except (UnknownVersion, Undecodable) as error:
        return _unknown(value, named, str(error), trace)
    _check_job_id(item.job_id)
    item = item.model_copy(update={"config": _known(item.config_hash, item.config)})
    deadline_ms = int(item.deadline.timestamp() * 1000)
    problem: str | None = None
    if not 0 <= item.results_partition < results_partitions:
        problem = (
            f"its result goes to partition {item.results_partition} and results has {results_partitions} here; "
            "give every process the same KILN_TOPICS_REQUESTS_PARTITIONS"
        )
        return Work(item.job_id, deadline_ms, item, None, problem, trace)
    if item.config_hash != item.config.config_hash:
        problem = (
            f"config {item.config.label} has the hash {item.config_hash[:12]} for admission and "
            f"{item.config.config_hash[:12]} here; run one version of promptkiln"
        )
    return Work(item.job_id, deadline_ms, item, Names.model_validate(item, from_attributes=True), problem, trace)


@lru_cache(maxsize=1000)
def _known(config_hash: str, config: GenerationConfig) -> GenerationConfig:
    """The one that an earlier item brought: its hash and what else is worked out of it are there already, which takes
    as long as to read an item. `config_hash`, as the item has it: what is equal to Python may have another."""
    return config


def _unknown(value: bytes, headers: dict[str, bytes], problem: str, trace: TraceContext | None) -> Work:
    try:
        job_id = headers[HEADER_JOB].decode()
        deadline_ms = int(headers[HEADER_DEADLINE_MS])
    except (KeyError, ValueError) as error:
        raise Undecodable(f"{problem}; and its headers name no job and deadline") from error
    _check_job_id(job_id)
    names = _names(decode_object(value))
    return Work(job_id, min(max(deadline_ms, 0), _DEADLINE_MS_MAX), None, names, problem, trace)


def _names(body: dict[str, Any]) -> Names | None:
    try:
        return Names.model_validate(body)
    except ValidationError:
        return None


def _check_job_id(job_id: str) -> None:
    try:
        if str(UUID(job_id)) == job_id:
            return
    except ValueError:
        pass
    raise Undecodable(f"{job_id[:64]!r} is no job id: a UUID in lower case with dashes")
