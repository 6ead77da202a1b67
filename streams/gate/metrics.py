"""Every metric of the gate: one typed list."""

from streams.metric import Collectors, Metric

PREFIX = "kiln_gate_"
METRICS: tuple[Metric, ...] = (
    Metric("kiln_gate_passed_total", "counter", "records", "Requests written to requests.", ("tenant",)),
    Metric(
        "kiln_gate_dead_letters_total", "counter", "records", "Records dead-lettered, by reason.", ("tenant", "reason")
    ),
    Metric("kiln_gate_retries_total", "counter", "tries", "Batches that had to be sent again."),
    Metric(
        "kiln_gate_expired_total", "counter", "offsets", "Offsets that left a topic before they were read.", ("tenant",)
    ),
    Metric(
        "kiln_gate_stalled_seconds",
        "gauge",
        "seconds",
        "How long the partition that has stood the longest has had lag, waited for nothing and not moved.",
    ),
    Metric("kiln_gate_lag", "gauge", "records", "Not passed on yet, as last seen.", ("topic", "partition"), seen=True),
    Metric("kiln_gate_view_age_seconds", "gauge", "seconds", "Since a view was last seen current.", ("view",)),
)


class GateMetrics(Collectors):
    """The list above, live."""

    def __init__(self) -> None:
        super().__init__(PREFIX, METRICS)
