"""Every metric of a GPU consumer: one typed list."""

from streams.metric import Collectors, Metric

# From a transaction (6 ms, measured) to an hour of video.
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600)
_FILL = (0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1.0)

PREFIX = "kiln_gpu_"
METRICS: tuple[Metric, ...] = (
    Metric("kiln_gpu_batches_total", "counter", "batches", "Batches the engine finished."),
    Metric("kiln_gpu_pictures_total", "counter", "pictures", "Pictures the engine finished, without padding."),
    Metric("kiln_gpu_batch_fill_ratio", "histogram", "ratio", "Pictures a batch over its bucket.", buckets=_FILL),
    Metric(
        "kiln_gpu_batch_wait_seconds",
        "histogram",
        "seconds",
        "From a batch's first picture until it went.",
        buckets=_SECONDS,
    ),
    Metric(
        "kiln_gpu_job_wait_seconds",
        "histogram",
        "seconds",
        "From admission until a job's first batch.",
        ("lane",),
        _SECONDS,
    ),
    Metric("kiln_gpu_stage_seconds", "histogram", "seconds", "Run time of a batch, by stage.", ("stage",), _SECONDS),
    Metric("kiln_gpu_settled_total", "counter", "jobs", "Jobs whose result was published, by status.", ("status",)),
    Metric("kiln_gpu_repeats_total", "counter", "records", "Work records of a job that another record settled: free."),
    Metric(
        "kiln_gpu_stored_fenced_total", "counter", "jobs", "Successes stored by this consumer after it lost the index."
    ),
    Metric("kiln_gpu_dead_letters_total", "counter", "records", "Work records dead-lettered, by reason.", ("reason",)),
    Metric("kiln_gpu_holes_total", "counter", "offsets", "Offsets of work where no record will ever be."),
    Metric("kiln_gpu_engine_restarts_total", "counter", "restarts", "Times the engine was started again."),
    Metric("kiln_gpu_model_loads_total", "counter", "loads", "Batches for which a model had to be loaded."),
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
    Metric("kiln_gpu_held_jobs", "gauge", "jobs", "Taken and held: a version or a model that is unknown here."),
    Metric("kiln_gpu_in_flight_jobs", "gauge", "jobs", "In the running batch."),
    Metric("kiln_gpu_settling_jobs", "gauge", "jobs", "Ran, and not published yet."),
    Metric(
        "kiln_gpu_lag_records",
        "gauge",
        "records",
        "Not finished up to the end of the partition, as last seen.",
        ("lane", "index"),
    ),
    Metric("kiln_gpu_indexes", "gauge", "indexes", "Partition indexes assigned, by state.", ("state",)),
    Metric("kiln_gpu_peak_vram_bytes", "gauge", "bytes", "Highest memory in use during the last batch."),
    Metric("kiln_gpu_gpu_seconds_total", "counter", "seconds", "GPU time, by tenant.", ("tenant",)),
    Metric("kiln_gpu_store_retries_total", "counter", "calls", "Calls of the object store that had to be repeated."),
)


class GpuMetrics(Collectors):
    """The list above, live."""

    def __init__(self) -> None:
        super().__init__(PREFIX, METRICS)
