"""The trace that a request belongs to, as headers carry it.

W3C Trace Context, version 00: `traceparent: 00-<trace id>-<span id>-<flags>`. Of tracestate nothing is kept. Span ids
of ours are digests of what the span is of, so that whoever speaks of a job names its spans alike, and a record that is
written again is the same record.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from uuid import UUID

HEADER_TRACE = "traceparent"
ADMISSION, SETTLE = "admission", "settle"
_SAMPLED = 1
_FORM = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.DOTALL)
_NO_TRACE, _NO_SPAN = "0" * 32, "0" * 16


@dataclass(frozen=True, slots=True)
class TraceContext:
    """`span_id` is the parent of what follows. `sampled`: its spans are recorded, by who records any."""

    trace_id: str
    span_id: str
    sampled: bool

    def header(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{'01' if self.sampled else '00'}"

    def at(self, span_id: str) -> "TraceContext":
        """The same trace, with another parent."""
        return TraceContext(self.trace_id, span_id, self.sampled)


def parse_traceparent(value: bytes | None) -> TraceContext | None:
    """None of what is malformed: it is ignored, as the standard has it. A later version may have more at its end."""
    found = None if value is None else _FORM.fullmatch(value)
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    if version == b"ff" or (version == b"00" and more is not None):
        return None
    context = TraceContext(trace_id.decode(), span_id.decode(), bool(int(flags, 16) & _SAMPLED))
    return None if context.trace_id == _NO_TRACE or context.span_id == _NO_SPAN else context


def trace_of(headers: Iterable[tuple[str, bytes | None]]) -> TraceContext | None:
    """Of a record. None too where it stands twice and nobody knows which one is meant."""
    values = [value for name, value in headers if name == HEADER_TRACE]
    return parse_traceparent(values[0]) if len(values) == 1 else None


def trace_id_of(job_id: str) -> str:
    """Of the trace that is begun for a job whose request brought none."""
    return UUID(job_id).hex


def span_id_of(job_id: str, name: str, attempt: int = 1) -> str:
    """Of a span of a job's: `name` is of one within an attempt."""
    digest = sha256(f"{job_id}/{name}/{attempt}".encode()).hexdigest()[:16]
    return digest if digest != _NO_SPAN else "0" * 15 + "1"
