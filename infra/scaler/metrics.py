"""Every metric of the external scaler: one typed list."""

from streams.metric import Collectors, Metric

PREFIX = "kiln_scaler_"
METRICS: tuple[Metric, ...] = (
    Metric("kiln_scaler_waiting_gpu_seconds", "gauge", "seconds", "Accepted and not begun, by lane.", ("pool", "lane")),
    Metric("kiln_scaler_running_gpu_seconds", "gauge", "seconds", "Left of what runs.", ("pool",)),
    Metric(
        "kiln_scaler_replicas_in_time",
        "gauge",
        "replicas",
        "The fewest that meet every deadline which can be met, whatever the target.",
        ("pool",),
    ),
    Metric("kiln_scaler_consumers", "gauge", "consumers", "Members of the pool's group, as last seen.", ("pool",)),
    Metric(
        "kiln_scaler_signal_age_seconds", "gauge", "seconds", "Since the pool's figures were last renewed.", ("pool",)
    ),
    Metric(
        "kiln_scaler_source_age_seconds",
        "gauge",
        "seconds",
        "Since a source was last heard of: offsets, records or ledger of a pool.",
        ("pool", "source"),
    ),
    Metric(
        "kiln_scaler_disbelieved_partitions",
        "gauge",
        "partitions",
        "Partitions of work that end below what is told to be finished of them: all that they hold counts as waiting.",
        ("pool",),
    ),
    Metric(
        "kiln_scaler_answers_total",
        "counter",
        "calls",
        "Calls of KEDA, by how they ended.",
        ("method", "status"),
        starts=(("GetMetrics", "OK"),),
    ),
    Metric("kiln_scaler_pushes_total", "counter", "pushes", "Told to KEDA without being asked.", ("pool", "active")),
    Metric("kiln_scaler_streams", "gauge", "streams", "Open push streams.", ("pool",)),
)


class ScalerMetrics(Collectors):
    """The list above, live."""

    def __init__(self) -> None:
        super().__init__(PREFIX, METRICS)
