"""Traces at the door: what a decision carries on, and the span of what admission did with its request."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from schemas.decision import Decision
from schemas.trace import ADMISSION, HEADER_TRACE, TraceContext
from streams.tracing import Headers, Tracing

_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Entered:
    """A decision that is to have a span. `came`: the trace of its request, None where it is begun here."""

    decision: Decision
    came: TraceContext | None
    carried: TraceContext


def enter(decision: Decision, headers: Headers, tracing: Tracing) -> Iterator[Entered]:
    """Write into a decision, before it is logged, what it carries: from then on only that is asked, whoever produces
    its work. Gives what there will be to tell."""
    came, carried = tracing.begin(headers, decision.job_id)
    if carried is None:
        return
    decision.traceparent = carried.header()
    if tracing.on:
        yield Entered(decision, came, carried)


def tell(tracing: Tracing, entered: Sequence[Entered], times_ns: tuple[int, int, int]) -> None:
    """When their batch began, was logged, and was produced: its decisions share these times."""
    began, logged, emitted = times_ns
    for each in entered:
        decision, carried = each.decision, each.carried
        attributes: dict[str, str | int | float] = {
            "kiln.job_id": decision.job_id,
            "kiln.tenant": decision.tenant,
            "kiln.verdict": decision.verdict,
            "kiln.decide_and_log_seconds": (logged - began) / _NS,
            "kiln.emit_seconds": (emitted - logged) / _NS,
        }
        if decision.code is not None:
            attributes["kiln.code"] = decision.code
        if decision.route is not None:
            attributes |= {"kiln.pool": decision.route.pool, "kiln.lane": decision.route.lane}
        parent = carried if each.came is None else carried.at(each.came.span_id)
        tracing.span(ADMISSION, parent, carried.span_id, (began, emitted), attributes, kind="consumer")


def trace_headers(decision: Decision) -> tuple[tuple[str, bytes], ...]:
    """Of its work, and of the result that ends it at the door. As the decision has it stored: a takeover repeats the
    same record, whether it tells spans or not."""
    return () if decision.traceparent is None else ((HEADER_TRACE, decision.traceparent.encode()),)
