"""Traces on and off. Spans are kept in memory; nothing is sent."""

import gzip
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import ClassVar
from uuid import uuid4

import pytest
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from schemas.errors import CommandError
from schemas.trace import ADMISSION, HEADER_TRACE, TraceContext, span_id_of, trace_id_of
from streams.otel import OtelTracing
from streams.tracing import OFF
from streams.tracing_choice import open_tracing
from tests.spans import Spans, attributes, ids

JOB = str(uuid4())
CAME = TraceContext("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", sampled=True)
HEADERS = [(HEADER_TRACE, CAME.header().encode())]


def test_off_nothing_is_imported_and_what_came_is_carried_on() -> None:
    assert OFF.begin([], JOB) == (None, None)
    assert OFF.begin(HEADERS, JOB) == (CAME, CAME)
    assert OFF.begin([(HEADER_TRACE, b"nonsense")], JOB) == (None, None)
    script = (
        "import sys, streams.service, gpu_consumer.service\n"
        "from streams import tracing, tracing_choice\n"
        "assert tracing_choice.open_tracing('x') is tracing.OFF\n"
        "sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_a_trace_is_begun_where_none_came_and_is_the_same_whenever_it_is_asked_for() -> None:
    tracing = Spans().tracing()
    assert tracing.begin([], JOB) == (None, TraceContext(trace_id_of(JOB), span_id_of(JOB, ADMISSION), sampled=True))
    assert tracing.begin([], JOB) == Spans().tracing().begin([], JOB)
    came, carried = tracing.begin(HEADERS, JOB)
    assert (came, carried) == (CAME, CAME.at(span_id_of(JOB, ADMISSION)))
    assert tracing.begin([(HEADER_TRACE, b"00-zz")], JOB) == tracing.begin([], JOB)


def test_whether_it_is_recorded_is_the_sender_s_word(monkeypatch: pytest.MonkeyPatch) -> None:
    unwanted = TraceContext(CAME.trace_id, CAME.span_id, sampled=False)
    _, carried = Spans().tracing().begin([(HEADER_TRACE, unwanted.header().encode())], JOB)
    assert carried is not None
    assert not carried.sampled
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_always_off")
    spans = Spans()
    never = spans.tracing()
    _, begun = never.begin([], JOB)
    assert begun is not None
    assert not begun.sampled
    never.span("queue", begun, span_id_of(JOB, "queue"), (1, 2), {})
    assert spans.all() == []
    assert never.begin(HEADERS, JOB)[1] == CAME.at(span_id_of(JOB, ADMISSION))


def test_a_span_has_the_ids_and_times_that_it_is_told_with() -> None:
    spans = Spans()
    tracing = spans.tracing("promptkiln-test")
    _, carried = tracing.begin([], JOB)
    assert carried is not None
    tracing.span(ADMISSION, carried, carried.span_id, (1_000, 5_000), {"kiln.job_id": JOB}, kind="consumer")
    tracing.span("queue", carried, span_id_of(JOB, "queue"), (5_000, 4_000), {}, failed=True)
    root, queue = spans.one(ADMISSION), spans.one("queue")
    assert ids(root) == (trace_id_of(JOB), carried.span_id, None)
    assert ids(queue) == (trace_id_of(JOB), span_id_of(JOB, "queue"), carried.span_id)
    assert (root.start_time, root.end_time, attributes(root)) == (1_000, 5_000, {"kiln.job_id": JOB})
    assert (queue.start_time, queue.end_time) == (5_000, 5_000)  # clocks of two machines: never negative
    assert (root.status.is_ok, queue.status.is_ok) == (True, False)
    assert root.resource.attributes["service.name"] == "promptkiln-test"


def test_a_service_may_be_named_by_opentelemetry_s_own_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "mine")
    spans = Spans()
    tracing = spans.tracing()
    tracing.span("queue", CAME, span_id_of(JOB, "queue"), (1, 2), {})
    assert spans.one("queue").resource.attributes["service.name"] == "mine"


async def test_a_collector_that_hangs_blocks_neither_spans_nor_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    class Hanging(SpanExporter):
        def export(self, spans: object) -> SpanExportResult:
            time.sleep(3600)
            return SpanExportResult.FAILURE

    monkeypatch.setattr("streams.otel._CLOSE_SECONDS", 0.05)
    tracing = OtelTracing("test", BatchSpanProcessor(Hanging(), max_queue_size=8, max_export_batch_size=4))
    for number in range(100):
        tracing.span("queue", CAME, span_id_of(JOB, "queue", number), (1, 2), {})
    await tracing.close()


def test_another_word_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KILN_TRACES", "jaeger")
    with pytest.raises(CommandError, match="KILN_TRACES"):
        open_tracing("x")


class Collector(BaseHTTPRequestHandler):
    """Takes what is sent by OTLP over HTTP."""

    seen: ClassVar[list[tuple[str, bytes]]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.seen.append((self.path, gzip.decompress(body) if self.headers["Content-Encoding"] == "gzip" else body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Silent."""


async def test_on_it_sends_by_otlp_to_where_opentelemetry_s_variables_say(monkeypatch: pytest.MonkeyPatch) -> None:
    server = HTTPServer(("127.0.0.1", 0), Collector)
    listening = threading.Thread(target=server.serve_forever, daemon=True)
    listening.start()
    try:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "60")  # nothing is sent twice on a busy machine
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.setenv("KILN_TRACES", "otlp")
        monkeypatch.setattr("streams.otel._CLOSE_SECONDS", 60.0)
        tracing = open_tracing("promptkiln-test")
        tracing.span("queue", CAME, span_id_of(JOB, "queue"), (1, 2), {"kiln.job_id": JOB})
        await tracing.close()  # which sends what waits
    finally:
        server.shutdown()
        server.server_close()
        listening.join()
    ((path, body),) = Collector.seen
    assert path == "/v1/traces"
    for part in (b"queue", JOB.encode(), b"promptkiln-test", bytes.fromhex(CAME.trace_id)):
        assert part in body


def test_without_opentelemetry_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KILN_TRACES", "otlp")
    monkeypatch.setitem(sys.modules, "streams.otel", None)
    with pytest.raises(CommandError, match=r"promptkiln\[traces\]"):
        open_tracing("x")
