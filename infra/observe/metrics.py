"""Every metric of every service. Dashboards and alert rules name nothing else; docs/metrics.md is written from it.

Each list stays with its service. A consumer's metrics carry the label `pool`, whatever they have of their own.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from gpu_consumer.gpu.metrics import METRICS as CARD
from gpu_consumer.metrics import METRICS as GPU_CONSUMER
from infra.observe.rule import number
from infra.scaler.metrics import METRICS as SCALER
from streams.gate.metrics import METRICS as GATE
from streams.metric import PROCESS, SEEN_SECONDS, Metric
from streams.metrics import METRICS as ADMISSION


@dataclass(frozen=True, slots=True)
class Service:
    """A part of a process: who exposes these metrics, and which labels each of them has besides its own."""

    title: str
    by: str
    metrics: tuple[Metric, ...]
    common: tuple[str, ...] = ()


SERVICES: tuple[Service, ...] = (
    Service("Admission", "`kiln admission run`", ADMISSION),
    Service("GPU consumer", "`kiln gpu-consumer run`", GPU_CONSUMER, ("pool",)),
    Service("Card", "`kiln gpu-consumer run`, where NVML is there", CARD, ("pool",)),
    Service("Gate", "`kiln gate`", GATE),
    Service("External scaler", "`kiln scaler`", SCALER),
    Service("Process", "each of them, on Linux; a GPU consumer's have the label `pool`", PROCESS),
)
METRICS: tuple[Metric, ...] = tuple(metric for service in SERVICES for metric in service.metrics)

_OF_A_HISTOGRAM = ("_bucket", "_count", "_sum")


def series(metric: Metric) -> Iterator[str]:
    """The names under which Prometheus keeps it."""
    if metric.kind == "histogram":
        yield from (metric.name + suffix for suffix in _OF_A_HISTOGRAM)
    else:
        yield metric.name


def labels_of(name: str) -> frozenset[str] | None:
    """The labels of our own that the series `name` may have. None: nobody exposes it."""
    found: set[str] | None = None
    for service in SERVICES:
        for metric in service.metrics:
            if name in series(metric):
                of_its_kind = {"le"} if name.endswith("_bucket") and metric.kind == "histogram" else set()
                found = (found or set()) | set(metric.labels) | set(service.common) | of_its_kind
    if found is not None and any(name == metric.name for metric in PROCESS):
        found.add("pool")
    return None if found is None else frozenset(found)


def page() -> str:
    """Markdown: a table a service."""
    lines = [
        "# Metrics",
        "",
        "Every service answers `/metrics` on its health port in Prometheus's text format. This page is written by",
        "`kiln metrics --write` from the lists in the source, which are all that is exposed. Counters count from the",
        "start of their process. A gauge that tells what somebody else was asked, a broker as a rule, is exposed no",
        f"more when nobody has answered for as long as stands beside its kind: {number(SEEN_SECONDS)} s.",
        "",
    ]
    for service in SERVICES:
        more = f" Each has the label `{'`, `'.join(service.common)}` as well." if service.common else ""
        lines += [f"## {service.title}", "", f"Exposed by {service.by}.{more}", ""]
        lines += ["| metric | kind | unit | labels | meaning |", "|---|---|---|---|---|"]
        lines += [_row(metric) for metric in service.metrics]
        lines.append("")
    return "\n".join(lines)


def _row(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    kind = f"{metric.kind}, {number(SEEN_SECONDS)} s" if metric.seen else metric.kind
    cells = (f"`{metric.name}`", kind, metric.unit, labels, metric.meaning.replace("|", "\\|"))
    return f"| {' | '.join(cells)} |"
