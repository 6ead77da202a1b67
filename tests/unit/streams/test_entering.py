"""Traces at the door: what a decision stores, what its work and results carry, and admission's span."""

import pytest

from admission.arrival import Arrival
from schemas.composed import decision_record
from schemas.decision import decode_decision
from schemas.trace import ADMISSION, HEADER_TRACE, TraceContext, span_id_of, trace_id_of, trace_of
from streams.batch import Batch
from streams.emission import work_headers
from streams.entering import tell, trace_headers
from streams.tracing import OFF, Tracing
from tests.spans import Spans, attributes, ids
from tests.unit.admission.scene import NOW_MS, arrival, fresh_state, make_world, request

WORLD = make_world()
CAME = TraceContext("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", sampled=True)
TRACED = ((HEADER_TRACE, CAME.header().encode()),)


def batch_of(tracing: Tracing, headers: tuple[tuple[str, bytes], ...] = (), **changes: object) -> Batch:
    came = arrival(request("r1", **changes), 0)
    made = Arrival(came.partition, came.offset, came.appended_ms, came.key, came.value, headers)
    batch = Batch(fresh_state(), WORLD, NOW_MS, tracing)
    batch.decide([made])
    return batch


def test_without_a_trace_nothing_is_stored_and_nothing_carried() -> None:
    (decision,) = batch_of(OFF).accepted
    assert decision.traceparent is None
    assert b"traceparent" not in decision_record(decision)
    assert trace_headers(decision) == ()


@pytest.mark.parametrize("value", [b"", b"00-zz", b"\xff" * 55])
def test_a_malformed_trace_is_ignored(value: bytes) -> None:
    (decision,) = batch_of(OFF, ((HEADER_TRACE, value),)).accepted
    assert decision.traceparent is None


def test_where_no_spans_are_told_a_trace_that_came_is_carried_on() -> None:
    batch = batch_of(OFF, TRACED)
    (decision,) = batch.accepted
    assert trace_of(trace_headers(decision)) == CAME
    assert batch.traced == []


@pytest.mark.parametrize("headers", [(), TRACED])
def test_what_is_carried_is_stored_so_that_a_takeover_writes_the_same_record(
    headers: tuple[tuple[str, bytes], ...],
) -> None:
    (decision,) = batch_of(Spans().tracing(), headers).accepted
    again = decode_decision(decision_record(decision))
    assert again == decision
    assert (again.work, work_headers(again), trace_headers(again)) == (
        decision.work,
        work_headers(decision),
        trace_headers(decision),
    )
    carried = trace_of(trace_headers(again))
    trace_id = CAME.trace_id if headers else trace_id_of(decision.job_id)
    assert carried == TraceContext(trace_id, span_id_of(decision.job_id, ADMISSION), sampled=True)


def test_admission_s_span_is_a_child_of_the_sender_s() -> None:
    spans = Spans()
    tracing = spans.tracing()
    batch = batch_of(tracing, TRACED, prompt="a secret")
    tell(tracing, batch.traced, (1_000_000_000, 3_000_000_000, 4_000_000_000))
    span, (decision,) = spans.one(ADMISSION), batch.accepted
    assert ids(span) == (CAME.trace_id, span_id_of(decision.job_id, ADMISSION), CAME.span_id)
    assert (span.start_time, span.end_time) == (1_000_000_000, 4_000_000_000)
    told = attributes(span)
    assert (told["kiln.decide_and_log_seconds"], told["kiln.emit_seconds"]) == (2.0, 1.0)
    assert (told["kiln.verdict"], told["kiln.job_id"]) == ("accepted", decision.job_id)
    assert "secret" not in span.to_json()


def test_what_is_refused_has_a_span_and_its_result_the_trace() -> None:
    spans = Spans()
    tracing = spans.tracing()
    batch = batch_of(tracing, TRACED, config={"name": "nobody"})
    tell(tracing, batch.traced, (1, 2, 3))
    span = spans.one(ADMISSION)
    assert (attributes(span)["kiln.verdict"], attributes(span)["kiln.code"]) == ("rejected", "unknown_config")
    (result,) = [output for output in batch.outputs if output.topic == WORLD.catalogue.results]
    assert trace_of(result.headers) == CAME.at(ids(span)[1])


def test_the_work_itself_is_the_same_with_traces_and_without() -> None:
    on, off = batch_of(Spans().tracing()), batch_of(OFF)
    assert [each.work for each in on.accepted] == [each.work for each in off.accepted]
