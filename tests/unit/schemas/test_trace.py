"""W3C trace context, as headers carry it."""

from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.trace import HEADER_TRACE, TraceContext, parse_traceparent, span_id_of, trace_id_of, trace_of

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
GOOD = f"00-{TRACE}-{SPAN}-01".encode()


def test_what_is_well_formed_is_read_and_written_alike() -> None:
    context = parse_traceparent(GOOD)
    assert context == TraceContext(TRACE, SPAN, sampled=True)
    assert context.header().encode() == GOOD
    unsampled = parse_traceparent(GOOD[:-2] + b"02")  # another flag than ours
    assert unsampled == TraceContext(TRACE, SPAN, sampled=False)
    assert parse_traceparent(b"01" + GOOD[2:] + b"-later") == context  # of a later version, with more


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        GOOD[:-1],
        GOOD + b"-more",
        GOOD + b"\n",
        GOOD.upper(),
        b"ff" + GOOD[2:],
        b"00-" + b"0" * 32 + GOOD[35:],
        f"00-{TRACE}-{'0' * 16}-01".encode(),
        "00-４bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".encode(),
        b"\xff" * 55,
    ],
)
def test_what_is_malformed_is_ignored(value: bytes | None) -> None:
    assert parse_traceparent(value) is None


@given(st.binary(max_size=80))
def test_whatever_is_sent_raises_nothing(value: bytes) -> None:
    parse_traceparent(value)


def test_of_a_record_it_is_the_one_header_of_the_name() -> None:
    assert trace_of([("x", b"y"), (HEADER_TRACE, GOOD)]) == parse_traceparent(GOOD)
    assert trace_of([(HEADER_TRACE, GOOD), (HEADER_TRACE, GOOD)]) is None
    assert trace_of([]) is None


def test_ids_follow_from_the_job_alone() -> None:
    job = str(uuid4())
    assert trace_id_of(job) == job.replace("-", "")
    ids = {span_id_of(job, name, attempt) for name in ("admission", "settle", "picture-0") for attempt in (1, 2)}
    assert len(ids) == 6
    assert span_id_of(job, "settle") in ids
    for span in ids:
        assert parse_traceparent(TraceContext(trace_id_of(job), span, sampled=True).header().encode()) is not None
