"""The spans of a job in a GPU consumer, and what its result carries."""

from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

import pytest

from schemas.trace import HEADER_TRACE, SETTLE, TraceContext, span_id_of
from tests.spans import Spans, attributes, ids
from tests.unit.gpu_consumer.bench import Bench
from tests.unit.gpu_consumer.work import job_of, work_item

JOB = str(uuid5(NAMESPACE_URL, "traced"))
TRACE = TraceContext("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", sampled=True)
HEADER = (HEADER_TRACE, TRACE.header().encode())


async def test_a_job_s_wait_pictures_store_and_settling_are_spans_of_its_trace(tmp_path: Path) -> None:
    spans = Spans()
    bench = Bench(tmp_path, tracing=spans.tracing())
    await bench.start()
    bench.settler.admit([job_of(work_item("traced", images=2, prompt="a secret"), bench.index, 0, HEADER)])
    bench.settler.admit([job_of(work_item("plain"), bench.index, 1)])
    await bench.idle()
    await bench.end()

    expected = ["finish", "finish", "picture", "picture", "queue", SETTLE, "slot", "slot", "store"]
    assert sorted(span.name for span in spans.all()) == expected
    assert {ids(span)[0] for span in spans.all()} == {TRACE.trace_id}
    pictures = {ids(span)[1] for span in spans.named("picture")}
    assert pictures == {span_id_of(JOB, f"picture-{n}") for n in range(2)}
    for span in spans.all():
        within = pictures if span.name in ("slot", "finish") else {TRACE.span_id}
        assert ids(span)[2] in within, span.name
        assert attributes(span)["kiln.job_id"] == JOB
        assert "secret" not in str(span.to_json())
    drawn = attributes(spans.named("picture")[0])
    assert (drawn["kiln.gpu_seconds"], drawn["kiln.attempt"], drawn["kiln.tenant"]) == (0.25, 1, "blue")
    assert attributes(spans.one(SETTLE))["kiln.status"] == "succeeded"

    traced, plain = sorted(bench.index.outputs, key=lambda output: not output.headers)
    assert traced.headers == ((HEADER_TRACE, TRACE.at(span_id_of(JOB, SETTLE)).header().encode()),)
    assert plain.headers == ()


async def test_a_failure_is_a_span_that_failed_and_its_line_names_the_trace(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    spans = Spans()
    bench = Bench(tmp_path, tracing=spans.tracing())
    await bench.start()
    bench.settler.admit([job_of(work_item("traced", prompt="blank"), bench.index, 0, HEADER)])
    await bench.idle()
    await bench.end()
    for name in ("picture", SETTLE):
        assert not spans.one(name).status.is_ok
    assert attributes(spans.one("picture"))["kiln.code"] == "blank_output"
    told = [vars(record) for record in caplog.records if "job_id" in vars(record)]
    assert {each["trace_id"] for each in told} == {TRACE.trace_id}


async def test_each_attempt_has_spans_of_its_own(tmp_path: Path) -> None:
    spans = Spans()
    bench = Bench(tmp_path, tracing=spans.tracing())
    await bench.start()
    bench.settler.admit([job_of(work_item("traced", prompt="poison"), bench.index, 0, HEADER)])
    await bench.idle()
    await bench.end()
    told = [ids(span)[1] for span in spans.all()]
    assert len(set(told)) == len(told)
    assert attributes(spans.one(SETTLE))["kiln.status"] == "failed"


async def test_where_no_spans_are_told_the_trace_is_carried_all_the_same(bench: Bench) -> None:
    bench.settler.admit([job_of(work_item("traced"), bench.index, 0, HEADER)])
    await bench.idle()
    (output,) = bench.index.outputs
    assert output.headers == ((HEADER_TRACE, TRACE.at(span_id_of(JOB, SETTLE)).header().encode()),)


async def test_a_trace_that_cannot_be_read_is_ignored(bench: Bench) -> None:
    bench.settler.admit([job_of(work_item("traced"), bench.index, 0, (HEADER_TRACE, b"00-not-one-01"))])
    await bench.idle()
    (output,) = bench.index.outputs
    assert output.headers == ()
