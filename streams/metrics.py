"""Every metric of admission: one typed list."""

from typing import get_args

from schemas.decision import DeadLetterReason
from streams.metric import Collectors, Metric

# From one record (a cycle of 6 ms, measured) to a broker that answers after its own time-outs.
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_JUDGING = (0.00001, 0.0001, 0.001, 0.01, 0.1, 1.0)  # a list takes microseconds; what takes more holds up everybody
_RECORDS = (1, 2, 5, 10, 25, 50, 100, 200, 500, 1000)

PREFIX = "kiln_admission_"
METRICS: tuple[Metric, ...] = (
    Metric(
        "kiln_admission_decisions_total",
        "counter",
        "decisions",
        "Requests decided, by verdict and rejection code (empty where accepted).",
        ("verdict", "code"),
        starts=(("accepted", ""),),
    ),
    Metric(
        "kiln_admission_degraded_total",
        "counter",
        "requests",
        "Accepted with a cheaper config than the one asked for, `name@version`.",
        ("config",),
    ),
    Metric(
        "kiln_admission_tenant_decisions_total",
        "counter",
        "decisions",
        "Requests decided, by tenant (`other`: all that are not declared by name) and verdict.",
        ("tenant", "verdict"),
    ),
    Metric(
        "kiln_admission_tenant_jobs_total",
        "counter",
        "jobs",
        "Accepted jobs that ended, by tenant and status.",
        ("tenant", "status"),
    ),
    Metric(
        "kiln_admission_tenant_gpu_seconds_total",
        "counter",
        "seconds",
        "GPU-seconds used by jobs that ended, by tenant. For a bill read `kiln usage`: this one forgets.",
        ("tenant",),
    ),
    Metric("kiln_admission_repeats_total", "counter", "records", "Repeats of a decided request: silent and free."),
    Metric(
        "kiln_admission_dead_letters_total",
        "counter",
        "records",
        "Records dead-lettered, by reason.",
        ("reason",),
        starts=tuple((reason,) for reason in get_args(DeadLetterReason)),
    ),
    Metric("kiln_admission_sent_home_total", "counter", "records", "Requests sent to their home partition."),
    Metric(
        "kiln_admission_cancels_total",
        "counter",
        "records",
        "Requests that their tenants took back: written to cancels, or nothing was there to end.",
        ("outcome",),
    ),
    Metric("kiln_admission_results_folded_total", "counter", "events", "Result events folded into outstanding work."),
    Metric(
        "kiln_admission_batch_seconds",
        "histogram",
        "seconds",
        "From the decision of a batch until its work is acknowledged.",
        buckets=_SECONDS,
    ),
    Metric("kiln_admission_batch_records", "histogram", "records", "Requests a batch.", buckets=_RECORDS),
    Metric("kiln_admission_emission_retries_total", "counter", "tries", "Emissions of work that had to be repeated."),
    Metric("kiln_admission_not_emitted", "gauge", "decisions", "Accepted, work not acknowledged.", ("partition",)),
    Metric("kiln_admission_lease_openings_total", "counter", "leases", "Leases opened.", ("partition",)),
    Metric("kiln_admission_lease_voids_total", "counter", "leases", "Leases that became void.", ("partition",)),
    Metric("kiln_admission_next_offset", "gauge", "offset", "The first request offset not decided.", ("partition",)),
    Metric("kiln_admission_lag", "gauge", "records", "Requests not decided, as last seen.", ("partition",), seen=True),
    Metric("kiln_admission_queue_length", "gauge", "records", "Requests taken and not decided.", ("partition",)),
    Metric(
        "kiln_admission_holes_total",
        "counter",
        "reads",
        "Times an owner read its log itself, because the intake left offsets out (markers do, too).",
        ("partition",),
    ),
    Metric("kiln_admission_partitions", "gauge", "partitions", "Request partitions assigned, by state.", ("state",)),
    Metric(
        "kiln_admission_control_passed_over_total",
        "counter",
        "records",
        "Records of control that could not be read, or that gave a published version another hash.",
        ("reason",),
    ),
    Metric(
        "kiln_admission_control_problems",
        "gauge",
        "channels",
        "Channels of control that lead to a version that is not there: their files' stand.",
    ),
    Metric(
        "kiln_admission_waiting_gpu_seconds",
        "gauge",
        "seconds",
        "GPU-seconds accepted and not finished, as all partitions told.",
        ("pool", "lane"),
    ),
    Metric("kiln_admission_pool_consumers", "gauge", "consumers", "Members of the pool's group.", ("pool",)),
    Metric("kiln_admission_demand_age_seconds", "gauge", "seconds", "Since the partition told that told longest ago."),
    Metric(
        "kiln_admission_demands_missing",
        "gauge",
        "partitions",
        "Partitions whose demand is not there, or too old to be counted.",
    ),
    Metric("kiln_admission_placements_total", "counter", "records", "Placement tables written from here."),
    Metric(
        "kiln_admission_policy_seconds",
        "histogram",
        "seconds",
        "A content policy's time for one text.",
        ("policy",),
        buckets=_JUDGING,
    ),
    Metric(
        "kiln_admission_policy_answers_total",
        "counter",
        "texts",
        "Texts that a content policy passed, refused, or failed on.",
        ("policy", "answer"),
    ),
    Metric(
        "kiln_admission_models_not_counted",
        "gauge",
        "models",
        "Models whose tokenizer is not here, while prompts that are too long for their model are refused.",
    ),
    Metric(
        "kiln_admission_stalled_seconds",
        "gauge",
        "seconds",
        "How long the partition that has stood the longest has had lag, waited for nothing and not moved.",
    ),
    Metric(
        "kiln_admission_unstable_records",
        "gauge",
        "records",
        "Behind the last stable offset, of the worst partition owned: nobody may read them yet.",
        ("topic",),
        seen=True,
    ),
    Metric(
        "kiln_admission_unstable_seconds",
        "gauge",
        "seconds",
        "How long the last stable offset of a partition owned has stood with records behind it.",
        ("topic",),
        seen=True,
    ),
    Metric(
        "kiln_admission_offset_renewals_total",
        "counter",
        "groups",
        "Pools' groups whose offsets were to be renewed, by what came of it: renewed, in use, nothing committed, "
        "failed.",
        ("group", "outcome"),
    ),
    Metric("kiln_admission_view_age_seconds", "gauge", "seconds", "Since a view was last seen current.", ("view",)),
)  # fmt: skip


class AdmissionMetrics(Collectors):
    """The list above, live."""

    def __init__(self) -> None:
        super().__init__(PREFIX, METRICS)

    def forget_partition(self, partition: int) -> None:
        """Stop exposing the gauges of a partition that left, or they would freeze at their last value."""
        for metric in METRICS:
            if metric.kind == "gauge" and metric.labels == ("partition",):
                self.forget(metric.name.removeprefix(PREFIX), partition=str(partition))
