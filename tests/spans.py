"""Spans as a test sees them: kept in memory, by name, with who is whose child."""

from dataclasses import dataclass, field
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from streams.otel import OtelTracing


@dataclass(frozen=True)
class Spans:
    exporter: InMemorySpanExporter = field(default_factory=InMemorySpanExporter)

    def tracing(self, service: str = "test") -> OtelTracing:
        return OtelTracing(service, SimpleSpanProcessor(self.exporter))

    def all(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.all() if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        (span,) = self.named(name)
        return span


def ids(span: ReadableSpan) -> tuple[str, str, str | None]:
    """Trace, span and parent, as headers spell them."""
    context, parent = span.get_span_context(), span.parent
    assert context is not None
    return f"{context.trace_id:032x}", f"{context.span_id:016x}", None if parent is None else f"{parent.span_id:016x}"


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})
