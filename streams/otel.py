"""Traces by OpenTelemetry. Imported only where they are on."""

import asyncio
import threading
from contextlib import suppress

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

from schemas.trace import ADMISSION, TraceContext, span_id_of, trace_id_of, trace_of
from streams.tracing import Attributes, Headers, Kind, Tracing

_KINDS = {"consumer": SpanKind.CONSUMER, "producer": SpanKind.PRODUCER, "internal": SpanKind.INTERNAL}
_UNNAMED = "unknown_service"  # what the SDK calls one whose name no variable gives
_CLOSE_SECONDS = 1.0  # of the grace of a process that ends


class _Named(IdGenerator):
    """Gives the next span the ids it is to have."""

    def __init__(self) -> None:
        self.trace_id = self.span_id = 0

    def generate_trace_id(self) -> int:
        return self.trace_id

    def generate_span_id(self) -> int:
        return self.span_id


class OtelTracing(Tracing):
    """`processor` takes spans that have ended. The sampler is OTEL_TRACES_SAMPLER's; of a trace that came, or was begun
    before, its own flag decides (parentbased, the default)."""

    on = True

    def __init__(self, service: str, processor: SpanProcessor) -> None:
        self._ids = _Named()
        resource = Resource.create()
        if str(resource.attributes.get(SERVICE_NAME, _UNNAMED)).startswith(_UNNAMED):
            resource = resource.merge(Resource({SERVICE_NAME: service}))
        self._provider = TracerProvider(resource=resource, id_generator=self._ids, shutdown_on_exit=False)
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("promptkiln")

    def begin(self, headers: Headers, job_id: str) -> tuple[TraceContext | None, TraceContext | None]:
        came = trace_of(headers)
        trace_id = trace_id_of(job_id) if came is None else came.trace_id
        context = None if came is None else _context(came)
        decision = self._provider.sampler.should_sample(context, int(trace_id, 16), ADMISSION).decision
        sampled = decision is Decision.RECORD_AND_SAMPLE
        return came, TraceContext(trace_id, span_id_of(job_id, ADMISSION), sampled)

    def span(
        self,
        name: str,
        trace: TraceContext,
        span_id: str,
        times_ns: tuple[int, int],
        attributes: Attributes,
        *,
        kind: Kind = "internal",
        failed: bool = False,
    ) -> None:
        if not trace.sampled:
            return
        self._ids.trace_id, self._ids.span_id = int(trace.trace_id, 16), int(span_id, 16)
        # The root of a trace that is begun here has no parent; it is the one span that would be its own.
        context = None if trace.span_id == span_id else _context(trace)
        began, ended = times_ns
        span = self._tracer.start_span(name, context, _KINDS[kind], attributes, start_time=began)
        if failed:
            span.set_status(Status(StatusCode.ERROR))
        span.end(max(began, ended))

    async def close(self) -> None:
        """In a thread that nobody waits for at the end: a collector that hangs must not hold up a drain."""
        closed, loop = asyncio.Event(), asyncio.get_running_loop()

        def shut_down() -> None:
            self._provider.shutdown()
            with suppress(RuntimeError):  # the loop is gone: it took too long
                loop.call_soon_threadsafe(closed.set)

        threading.Thread(target=shut_down, name="traces", daemon=True).start()
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await closed.wait()


def to_collector(service: str) -> OtelTracing:
    """Spans wait in a bounded queue (OTEL_BSP_*) and are sent by a thread; what finds it full is lost."""
    return OtelTracing(service, BatchSpanProcessor(OTLPSpanExporter()))


def _context(trace: TraceContext) -> Context:
    flags = TraceFlags(TraceFlags.SAMPLED if trace.sampled else TraceFlags.DEFAULT)
    parent = SpanContext(int(trace.trace_id, 16), int(trace.span_id, 16), is_remote=True, trace_flags=flags)
    return set_span_in_context(NonRecordingSpan(parent))
