"""What a run left behind, as plain data: what was sent, what every topic holds, what the store holds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Name: TypeAlias = tuple[str, str]  # tenant, request id
Place: TypeAlias = tuple[int, int]  # partition, offset


@dataclass(frozen=True, slots=True)
class Meaning:
    """What the sender of a record meant by its bytes. The checker never parses a request itself."""

    name: Name | None  # None: no name can be read from it
    payload: int = 0  # which payload of the name: repeats share it, a conflicting one has another
    ends: frozenset[str] = frozenset()  # every right end: "succeeded", "rejected:rate_limited", ...
    body: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sent:
    """A record that the broker has acknowledged."""

    key: bytes | None
    value: bytes | None
    partition: int
    offset: int
    meaning: Meaning


@dataclass(frozen=True, slots=True)
class Record:
    """A record as a read_committed reader saw it."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp_ms: int = 0

    @property
    def place(self) -> Place:
        return self.partition, self.offset

    @property
    def at(self) -> str:
        return f"{self.topic}/{self.partition}@{self.offset}"

    def header(self, name: str) -> str | None:
        """The header's text, or None where there is none or more than one."""
        values = [value for key, value in self.headers if key == name]
        return values[0].decode("utf-8", "replace") if len(values) == 1 else None


@dataclass(frozen=True, slots=True)
class Limit:
    """A tenant's token buckets: requests at once and a second on the long run, and GPU-seconds where it has such."""

    burst: float
    per_second: float
    gpu_burst: float | None = None
    gpu_per_second: float = 0.0


@dataclass(frozen=True, slots=True)
class Stored:
    """The object store: outcomes by job id, artifacts by URI."""

    outcomes: Mapping[str, bytes]
    artifacts: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class History:
    """Everything the checker looks at. Records stand in the order of partition and offset."""

    requests_partitions: int
    limits: Mapping[str, Limit]
    sent: Sequence[Sent]
    requests: Sequence[Record]
    decisions: Sequence[Record]
    work: Sequence[Record]
    results: Sequence[Record]
    dead_letters: Sequence[Record]
    stored: Stored
    lags: Mapping[str, int]
    tenants: Sequence[Record]


@dataclass(frozen=True, slots=True)
class Flaw:
    """A promise that was not kept: its kind, and one example of it in a sentence."""

    kind: str
    detail: str
