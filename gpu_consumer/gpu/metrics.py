"""Every metric of the card: one typed list, and how a sample fills it. What the card does not tell is absent."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric as Family

from gpu_consumer.gpu.health import Fault
from gpu_consumer.gpu.sampler import Sample
from streams.metric import Metric

PREFIX = "kiln_gpu_card_"
METRICS: tuple[Metric, ...] = (
    Metric(
        "kiln_gpu_card_info",
        "gauge",
        "1",
        "Always 1: the card or MIG slice in use.",
        ("uuid", "card", "product", "driver"),
    ),
    Metric("kiln_gpu_card_nvml_up", "gauge", "boolean", "1 where NVML answers; else what it would tell is absent."),
    Metric("kiln_gpu_card_utilisation_ratio", "gauge", "ratio", "Time with a kernel running; not told of a MIG slice."),
    Metric("kiln_gpu_card_utilisation_peak_ratio", "gauge", "ratio", "The highest in the window."),
    Metric("kiln_gpu_card_memory_used_bytes", "gauge", "bytes", "Of the card or slice, whoever uses it."),
    Metric("kiln_gpu_card_memory_used_peak_bytes", "gauge", "bytes", "The highest in the window."),
    Metric("kiln_gpu_card_memory_total_bytes", "gauge", "bytes", "Of the card or slice."),
    Metric("kiln_gpu_card_power_watts", "gauge", "watts", "Drawn by the whole card."),
    Metric("kiln_gpu_card_power_peak_watts", "gauge", "watts", "The highest in the window."),
    Metric("kiln_gpu_card_temperature_celsius", "gauge", "degrees Celsius", "Of the die."),
    Metric("kiln_gpu_card_temperature_peak_celsius", "gauge", "degrees Celsius", "The highest in the window."),
    Metric("kiln_gpu_card_clock_hertz", "gauge", "hertz", "The clock now, by domain.", ("clock",)),
    Metric(
        "kiln_gpu_card_throttled_seconds_total",
        "counter",
        "seconds",
        "Time at a clock held down, by reason.",
        ("reason",),
    ),
    Metric("kiln_gpu_card_ecc_uncorrected_errors", "gauge", "errors", "Uncorrectable memory errors since driver load."),
    Metric("kiln_gpu_card_fault", "gauge", "boolean", "1 where the card has this fault.", ("fault",)),
    Metric("kiln_gpu_card_xid_events_total", "counter", "events", "Xid events of the card, by number.", ("xid",)),
)
PEAKS = {
    "utilisation_ratio": "utilisation_peak_ratio",
    "memory_used_bytes": "memory_used_peak_bytes",
    "power_watts": "power_peak_watts",
    "temperature_celsius": "temperature_peak_celsius",
}
_PLAIN = ("utilisation_ratio", "memory_used_bytes", "memory_total_bytes", "power_watts", "temperature_celsius")


@dataclass(frozen=True, slots=True)
class Card:
    """What is exposed. `sample` is None where NVML does not answer; counts are since this process began."""

    sample: Sample | None = None
    peaks: Mapping[str, float] = field(default_factory=dict)
    identity: tuple[str, str, str, str] | None = None
    throttled_seconds: Mapping[str, float] = field(default_factory=dict)
    faults: Mapping[Fault, bool] = field(default_factory=dict)
    xids: Mapping[int, int] = field(default_factory=dict)


def families(card: Card) -> Iterator[Family]:
    """All metrics, those without a value as a family without samples, so that a registry knows their names."""
    values = dict(_values(card))
    for metric in METRICS:
        kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
        family = kind(metric.name, f"{metric.meaning} Unit: {metric.unit}.", labels=metric.labels)
        for labels, value in values.get(metric.name.removeprefix(PREFIX), ()):
            family.add_metric(labels, value)
        yield family


def _values(card: Card) -> Iterator[tuple[str, Iterable[tuple[tuple[str, ...], float]]]]:
    sample = card.sample
    yield "nvml_up", [((), float(sample is not None))]
    yield "throttled_seconds_total", [((reason,), seconds) for reason, seconds in card.throttled_seconds.items()]
    yield "xid_events_total", [((str(xid),), count) for xid, count in card.xids.items()]
    yield "fault", [((fault,), float(there)) for fault, there in card.faults.items()]
    if card.identity is not None:
        yield "info", [(card.identity, 1)]
    for name, peak in card.peaks.items():
        yield PEAKS[name], [((), peak)]
    if sample is None:
        return
    for name in _PLAIN:
        if (value := getattr(sample, name)) is not None:
            yield name, [((), value)]
    yield "clock_hertz", [((clock,), hertz) for clock, hertz in sample.clock_hertz.items()]
    if sample.condition.ecc_uncorrected is not None:
        yield "ecc_uncorrected_errors", [((), sample.condition.ecc_uncorrected)]
