"""Every gauge of every service, and what it says when its source is away. A new one needs a word here."""

from infra.observe.metrics import METRICS

# The process knows it by itself, or it is an age, which grows: there is no source that could be away.
OWN = {
    "kiln_admission_control_problems",  # of what is in force here, however old the view is
    "kiln_admission_demands_missing",
    "kiln_admission_models_not_counted",
    "kiln_admission_next_offset",
    "kiln_admission_not_emitted",
    "kiln_admission_partitions",
    "kiln_admission_queue_length",
    "kiln_admission_stalled_seconds",
    "kiln_admission_view_age_seconds",
    "kiln_gate_stalled_seconds",
    "kiln_gate_view_age_seconds",
    "kiln_gpu_backlog_pictures",
    "kiln_gpu_budget_usd_per_month",
    "kiln_gpu_deletion_cost",  # what Kubernetes was told, and still believes
    "kiln_gpu_held_jobs",
    "kiln_gpu_in_flight_jobs",
    "kiln_gpu_indexes",
    "kiln_gpu_oldest_job_seconds",
    "kiln_gpu_paused",  # by which it goes, however old the view is
    "kiln_gpu_peak_vram_bytes",  # of the last picture
    "kiln_gpu_price_usd_per_hour",
    "kiln_gpu_settling_jobs",
    "kiln_gpu_stalled_seconds",
    "kiln_gpu_start_seconds",  # of the last start
    "kiln_gpu_tenant_budget_usd_per_month",
    "kiln_gpu_view_age_seconds",
    "kiln_scaler_signal_age_seconds",
    "kiln_scaler_source_age_seconds",
    "kiln_scaler_streams",
}
# Whoever sets it takes it back: it is not believed for longer than a setting says, or its engine or its card is gone.
TAKEN_BACK = {
    "kiln_admission_demand_age_seconds",
    "kiln_admission_pool_consumers",
    "kiln_admission_waiting_gpu_seconds",
    "kiln_gpu_memory_bytes",
    "kiln_gpu_memory_fragmentation_ratio",
    "kiln_gpu_passed_by_partitions",
    "kiln_gpu_step_seconds",
    "kiln_scaler_consumers",
    "kiln_scaler_disbelieved_partitions",
    "kiln_scaler_replicas_in_time",
    "kiln_scaler_running_gpu_seconds",
    "kiln_scaler_waiting_gpu_seconds",
}
_OF_A_LIBRARY = ("process_", "kiln_gpu_card_")  # asked at each scrape; of a sample that is stale nothing is told


def test_no_gauge_keeps_its_last_value_while_its_source_is_away() -> None:
    gauges = {
        metric.name: metric
        for metric in METRICS
        if metric.kind == "gauge" and not metric.name.startswith(_OF_A_LIBRARY)
    }
    leave_by_themselves = {name for name, metric in gauges.items() if metric.seen}
    assert leave_by_themselves, "which a broker tells"
    assert not OWN & TAKEN_BACK
    assert gauges.keys() - leave_by_themselves == OWN | TAKEN_BACK
