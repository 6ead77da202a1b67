"""Every metric of a GPU consumer: one typed list."""

from streams.metric import Collectors, Metric

# From a transaction (6 ms, measured) to an hour of video.
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600)
# What a pool may promise: an alert judges a wait by the next bound above the objective.
_WAITS = (0.1, 0.5, 1, 2.5, 5, 10, 15, 30, 45, 60, 90, 120, 180, 300, 600, 900, 1800, 3600)

PREFIX = "kiln_gpu_"
METRICS: tuple[Metric, ...] = (
    Metric("kiln_gpu_pictures_total", "counter", "pictures", "Pictures the engine finished, without padding."),
    Metric(
        "kiln_gpu_slot_seconds_total",
        "counter",
        "seconds",
        "Slots of what ran times seconds, filled or empty: the filled part is the batch fill over time.",
        ("state",),
    ),
    Metric("kiln_gpu_steps_total", "counter", "steps", "Denoising steps of the engine."),
    Metric("kiln_gpu_step_seconds", "gauge", "seconds", "The median of the last steps."),
    Metric(
        "kiln_gpu_batch_wait_seconds",
        "histogram",
        "seconds",
        "From the arrival of the oldest picture of a choice until it was chosen.",
        buckets=_SECONDS,
    ),
    Metric(
        "kiln_gpu_job_wait_seconds",
        "histogram",
        "seconds",
        "From admission until a job's first picture had a slot.",
        ("lane",),
        _WAITS,
    ),
    Metric(
        "kiln_gpu_run_seconds",
        "histogram",
        "seconds",
        "From a picture's slot until it was encoded.",
        ("lane",),
        _SECONDS,
    ),
    Metric(
        "kiln_gpu_stage_seconds",
        "histogram",
        "seconds",
        "Run time of a picture, by stage, and of storing a job.",
        ("stage",),
        _SECONDS,
    ),
    Metric(
        "kiln_gpu_settled_total",
        "counter",
        "jobs",
        "Jobs whose result was published, by status.",
        ("status",),
        starts=(("succeeded",), ("failed",), ("cancelled",), ("expired",)),
    ),
    Metric("kiln_gpu_repeats_total", "counter", "records", "Work records of a job that another record settled: free."),
    Metric(
        "kiln_gpu_stored_fenced_total", "counter", "jobs", "Successes stored by this consumer after it lost the index."
    ),
    Metric(
        "kiln_gpu_dead_letters_total",
        "counter",
        "records",
        "Work records dead-lettered, by reason.",
        ("reason",),
        starts=(("malformed",),),
    ),
    Metric("kiln_gpu_holes_total", "counter", "offsets", "Offsets of work where no record will ever be."),
    Metric("kiln_gpu_engine_restarts_total", "counter", "restarts", "Times the engine was started again."),
    Metric("kiln_gpu_model_loads_total", "counter", "loads", "Models loaded since the engine was warm."),
    Metric("kiln_gpu_lease_openings_total", "counter", "leases", "Leases opened, by partition index.", ("index",)),
    Metric(
        "kiln_gpu_lease_voids_total", "counter", "leases", "Leases that became void while theirs was ours.", ("index",)
    ),
    Metric(
        "kiln_gpu_lease_open_seconds",
        "histogram",
        "seconds",
        "Fencing the former owner and reading the ledger.",
        buckets=_SECONDS,
    ),
    Metric("kiln_gpu_backlog_pictures", "gauge", "pictures", "Taken and not settled, by lane.", ("lane",)),
    Metric(
        "kiln_gpu_oldest_job_seconds",
        "gauge",
        "seconds",
        "Since admission of the oldest job taken that waits for its first slot, or has begun and is not settled.",
        ("lane", "state"),
    ),
    Metric("kiln_gpu_held_jobs", "gauge", "jobs", "Taken and held: a version or a model that is unknown here."),
    Metric("kiln_gpu_paused", "gauge", "boolean", "1 while the pool is paused: nothing more is taken or begun."),
    Metric("kiln_gpu_in_flight_jobs", "gauge", "jobs", "With a picture that is claimed, or in the engine."),
    Metric("kiln_gpu_settling_jobs", "gauge", "jobs", "Ran, and not published yet."),
    Metric(
        "kiln_gpu_lag_records",
        "gauge",
        "records",
        "Not finished up to the end of the partition, as last seen.",
        ("lane", "index"),
        seen=True,
    ),
    Metric(
        "kiln_gpu_passed_by_partitions",
        "gauge",
        "partitions",
        "Partitions of work that end below what their ledger calls finished: what is written there is passed by.",
    ),
    Metric(
        "kiln_gpu_stalled_seconds",
        "gauge",
        "seconds",
        "How long there has been work, nothing in flight, nothing to wait for, and no movement.",
    ),
    Metric(
        "kiln_gpu_unstable_records",
        "gauge",
        "records",
        "Of work behind the last stable offset, of the worst partition fetched: nobody may read them yet.",
        ("topic",),
        seen=True,
    ),
    Metric(
        "kiln_gpu_unstable_seconds",
        "gauge",
        "seconds",
        "How long the last stable offset of a partition of work has stood with records behind it.",
        ("topic",),
        seen=True,
    ),
    Metric("kiln_gpu_view_age_seconds", "gauge", "seconds", "Since a view was last seen current.", ("view",)),
    Metric("kiln_gpu_indexes", "gauge", "indexes", "Partition indexes assigned, by state.", ("state",)),
    Metric("kiln_gpu_peak_vram_bytes", "gauge", "bytes", "Highest memory in use while the last picture ran."),
    Metric("kiln_gpu_memory_bytes", "gauge", "bytes", "Of the device, by kind, as the engine last said.", ("kind",)),
    Metric("kiln_gpu_memory_fragmentation_ratio", "gauge", "ratio", "Reserved memory that is not allocated."),
    Metric("kiln_gpu_start_seconds", "gauge", "seconds", "The engine's last start, by stage.", ("stage",)),
    Metric(
        "kiln_gpu_gpu_seconds_total",
        "counter",
        "seconds",
        "GPU time of pictures, by tenant; those that are not declared by name are `other`.",
        ("tenant",),
    ),
    Metric(
        "kiln_gpu_tenant_wait_seconds_total",
        "counter",
        "seconds",
        "From admission until a job's first picture had a slot, of all jobs of a tenant together.",
        ("tenant",),
    ),
    Metric(
        "kiln_gpu_tenant_begun_total", "counter", "jobs", "Jobs whose first picture had a slot, by tenant.", ("tenant",)
    ),
    Metric("kiln_gpu_cost_usd_total", "counter", "USD", "The same in money, at the pool's price.", ("tenant",)),
    Metric("kiln_gpu_config_gpu_seconds_total", "counter", "seconds", "GPU time of pictures, by config.", ("config",)),
    Metric("kiln_gpu_config_cost_usd_total", "counter", "USD", "The same in money.", ("config",)),
    Metric(
        "kiln_gpu_state_seconds_total",
        "counter",
        "seconds",
        "Since the process began, by what the engine did: busy, loading or idle. All of it is paid.",
        ("state",),
    ),
    Metric("kiln_gpu_state_cost_usd_total", "counter", "USD", "The same in money.", ("state",)),
    Metric("kiln_gpu_price_usd_per_hour", "gauge", "USD", "Of a GPU of this pool, an hour."),
    Metric("kiln_gpu_budget_usd_per_month", "gauge", "USD", "Of this pool, for all its GPUs; 0: none is declared."),
    Metric(
        "kiln_gpu_tenant_budget_usd_per_month", "gauge", "USD", "Of each tenant that has one declared.", ("tenant",)
    ),
    Metric("kiln_gpu_deletion_cost", "gauge", "seconds", "GPU time left to do, as Kubernetes was last told it."),
    Metric("kiln_gpu_deletion_cost_failures_total", "counter", "calls", "Calls that were to tell it, and did not."),
    Metric(
        "kiln_gpu_progress_events_total",
        "counter",
        "events",
        "Events of how far jobs are, by what came of them: sent, or dropped where the broker did not take them.",
        ("outcome",),
        starts=(("sent",), ("dropped",)),
    ),
    Metric("kiln_gpu_store_retries_total", "counter", "calls", "Calls of the object store that had to be repeated."),
)


class GpuMetrics(Collectors):
    """The list above, live."""

    def __init__(self) -> None:
        super().__init__(PREFIX, METRICS)
