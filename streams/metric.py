"""What a metric is, and a list of them as live collectors. Each service has its own list; nothing else is measured.

Names follow Prometheus: base units, `_total` on counters.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric as Family


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric as it is exposed; `meaning` is its help text.

    `starts` are the values of its labels that are exposed from the beginning, at 0: a series that appears at 1 has not
    risen, as Prometheus sees it, and a first dead letter would be told to nobody.

    A gauge that is `seen` tells what somebody else was asked, a broker as a rule. Its last value says nothing once
    nobody answers, so it is exposed for SEEN_SECONDS after it was set.
    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    unit: str
    meaning: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    starts: tuple[tuple[str, ...], ...] = ()
    seen: bool = False


SEEN_SECONDS = 60.0  # as old as a view may be before an alert tells of it (KILN_ALERT_VIEW_AGE_SECONDS_MAX)

# Of every service, named as Prometheus's own clients do; only Linux tells them.
PROCESS: tuple[Metric, ...] = (
    Metric("process_start_time_seconds", "gauge", "seconds", "When the process began, since 1970."),
    Metric("process_cpu_seconds_total", "counter", "seconds", "CPU time, user and system, without child processes."),
    Metric("process_resident_memory_bytes", "gauge", "bytes", "Resident memory, without child processes."),
    Metric("process_virtual_memory_bytes", "gauge", "bytes", "Virtual memory."),
    Metric("process_open_fds", "gauge", "descriptors", "Open file descriptors."),
    Metric("process_max_fds", "gauge", "descriptors", "File descriptors that may be open."),
)


class Labelled:
    """A registry whose every sample has `labels` besides its own: what the whole process has in common."""

    def __init__(self, registry: CollectorRegistry, labels: Mapping[str, str]) -> None:
        self._registry = registry
        self._labels = dict(labels)

    def collect(self) -> Iterator[Family]:
        for family in self._registry.collect():
            family.samples = [sample._replace(labels=self._labels | sample.labels) for sample in family.samples]
            yield family


class _Seen:
    """A gauge whose values leave by themselves. `clock` is steady."""

    def __init__(self, metric: Metric, meaning: str, clock: Callable[[], float]) -> None:
        self._metric = metric
        self._meaning = meaning
        self._clock = clock
        self._values: dict[tuple[str, ...], tuple[float, float]] = {}

    def describe(self) -> Iterator[Family]:
        yield GaugeMetricFamily(self._metric.name, self._meaning, labels=self._metric.labels)

    def collect(self) -> Iterator[Family]:
        family = GaugeMetricFamily(self._metric.name, self._meaning, labels=self._metric.labels)
        oldest = self._clock() - SEEN_SECONDS
        for labels, (value, at) in self._values.items():
            if at >= oldest:
                family.add_metric(labels, value)
        yield family

    def labels(self, **labels: str) -> "_Child":
        return _Child(self, tuple(labels[name] for name in self._metric.labels))

    def keep(self, labels: tuple[str, ...], value: float) -> None:
        self._values[labels] = (value, self._clock())

    def remove(self, *labels: str) -> None:
        self._values.pop(labels, None)


@dataclass(frozen=True, slots=True)
class _Child:
    parent: _Seen
    labels: tuple[str, ...]

    def set(self, value: float) -> None:
        self.parent.keep(self.labels, value)


class Collectors:
    """A list of metrics in one registry, with those of the process. The methods take names without their common
    prefix."""

    def __init__(self, prefix: str, metrics: Sequence[Metric], clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._collectors = {metric.name.removeprefix(prefix): self._make(metric) for metric in metrics}
        self._labels = {metric.name.removeprefix(prefix): metric.labels for metric in metrics}
        for metric in metrics:
            for values in metric.starts:
                self._collectors[metric.name.removeprefix(prefix)].labels(*values)

    def _make(self, metric: Metric) -> Any:
        arguments = (metric.name, f"{metric.meaning} Unit: {metric.unit}.", metric.labels)
        if metric.seen:
            assert (metric.kind, bool(metric.labels)) == ("gauge", True), f"{metric.name} cannot be `seen`"
            seen = _Seen(metric, arguments[1], self._clock)
            self.registry.register(seen)
            return seen
        match metric.kind:
            case "counter":
                return Counter(*arguments, registry=self.registry)
            case "gauge":
                return Gauge(*arguments, registry=self.registry)
            case "histogram":
                return Histogram(*arguments, registry=self.registry, buckets=metric.buckets)

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        self._of(name, labels).inc(amount)

    def set(self, name: str, value: float, **labels: str) -> None:
        self._of(name, labels).set(value)

    def tell(self, name: str, value: float | None, **labels: str) -> None:
        """Set a gauge of which the last value says nothing once nobody knows the present one; None: nobody does."""
        if value is None:
            self.forget(name, **labels)
        else:
            self.set(name, value, **labels)

    def observe(self, name: str, value: float, **labels: str) -> None:
        self._of(name, labels).observe(value)

    def forget(self, name: str, **labels: str) -> None:
        """Stop exposing a series: a partition that left must not freeze at its last value. A gauge without labels
        becomes NaN, which no comparison of an alert holds for."""
        if not labels:
            self._collectors[name].set(math.nan)
            return
        with suppress(KeyError):
            self._collectors[name].remove(*(labels[label] for label in self._labels[name]))

    def _of(self, name: str, labels: dict[str, str]) -> Any:
        collector = self._collectors[name]
        return collector.labels(**labels) if labels else collector
