"""What can be wrong with any process: it stands, dies, swaps, fails, or sees an old world."""

from collections.abc import Iterator

from infra.observe.panel import DAYS_A_MONTH
from infra.observe.rule import Alert, Recording, number, value_of
from infra.observe.settings import AlertSettings

# Of each service one counter that is there as long as its process.
_OURS = " or ".join(
    f"count_over_time({name}[1h])"
    for name in (
        "kiln_gpu_pictures_total",
        "kiln_admission_repeats_total",
        "kiln_gate_retries_total",
        "kiln_scaler_answers_total",
    )
)
_RAN = 'sum by (pool) (increase(kiln_gpu_settled_total{status=~"succeeded|failed"}[15m]))'
_FAILED = 'sum by (pool) (increase(kiln_gpu_settled_total{status="failed"}[15m]))'


def consumer_rules(settings: AlertSettings) -> Iterator[Alert | Recording]:
    yield Recording(
        "instance:kiln_memory_used:ratio",
        "max by (pool, instance) (kiln_gpu_card_memory_used_peak_bytes / kiln_gpu_card_memory_total_bytes) "
        'or 1 - max by (pool, instance) (kiln_gpu_memory_bytes{kind="free"}) '
        '/ max by (pool, instance) (kiln_gpu_memory_bytes{kind="total"})',
    )
    yield Recording(
        "instance:kiln_model_loads:increase1h", "sum by (pool, instance) (increase(kiln_gpu_model_loads_total[1h]))"
    )
    yield Alert(
        name="KilnNoProgress",
        severity="critical",
        expr="max by (pool, instance) "
        "(kiln_gpu_stalled_seconds or kiln_admission_stalled_seconds or kiln_gate_stalled_seconds) "
        f"> {settings.stalled_seconds}",
        for_seconds=0,
        summary="A process has work and does nothing",
        description="{{ $labels.instance }} has work, waits for nothing that it could name, and has not moved for "
        "{{ $value | humanizeDuration }}.",
    )
    yield Alert(
        name="KilnLeasesNotOpen",
        severity="warning",
        expr='sum by (pool, instance) (kiln_admission_partitions{state="opening"} or kiln_gpu_indexes{state="opening"})'
        " > 0",
        for_seconds=60,
        summary="A process has partitions and cannot open their leases",
        description=f"{{{{ $labels.instance }}}} has {value_of('partition')} that it could not open for a minute; the "
        "work there stands.",
    )
    yield Alert(
        name="KilnVramHigh",
        severity="warning",
        expr=f"instance:kiln_memory_used:ratio > {number(settings.vram_ratio_max)}",
        for_seconds=600,
        summary="A device's memory is nearly full",
        description="{{ $value | humanizePercentage }} of the device memory of {{ $labels.instance }} (pool "
        "{{ $labels.pool }}) are in use, for ten minutes now.",
    )
    yield Alert(
        name="KilnSwapRate",
        severity="warning",
        expr=f"instance:kiln_model_loads:increase1h > {number(settings.swaps_per_hour_max)}",
        for_seconds=600,
        summary="A consumer loads models instead of drawing",
        description=f"{{{{ $labels.instance }}}} (pool {{{{ $labels.pool }}}}) loaded {value_of('model')} within an "
        "hour.",
    )
    yield Alert(
        name="KilnEngineRestarts",
        severity="warning",
        expr="sum by (pool, instance) (increase(kiln_gpu_engine_restarts_total[1h])) "
        f"> {number(settings.engine_restarts_per_hour_max)}",
        for_seconds=0,
        summary="An engine dies again and again",
        description="The engine of {{ $labels.instance }} (pool {{ $labels.pool }}) was started again "
        f"{value_of('time')} within an hour.",
    )
    yield Alert(
        name="KilnProcessRestarts",
        severity="critical",
        expr=f"changes(process_start_time_seconds[1h]) > {number(settings.process_restarts_per_hour_max)} "
        f"and on(instance) ({_OURS})",
        for_seconds=0,
        summary="A process ends and is started again and again",
        description=f"{{{{ $labels.instance }}}} was started again {value_of('time')} within an hour.",
    )
    yield Alert(
        name="KilnJobsFail",
        severity="warning",
        expr=f"{_FAILED} / {_RAN} > {number(settings.failed_ratio_max)} "
        f"and on(pool) {_FAILED} >= {settings.failed_min}",
        for_seconds=60,
        summary="Jobs end as failed",
        description="{{ $value | humanizePercentage }} of the jobs that pool {{ $labels.pool }} ran in fifteen minutes "
        "failed.",
    )
    yield Alert(
        name="KilnJobsHeld",
        severity="warning",
        expr="sum by (pool) (kiln_gpu_held_jobs) > 0",
        for_seconds=600,
        summary="Jobs are held that no consumer here can run",
        description=f"Pool {{{{ $labels.pool }}}} holds {value_of('job')} of a version or a model that the consumer "
        "does not know.",
    )
    yield Alert(
        name="KilnLedgerBeyondWork",
        severity="critical",
        expr="max by (pool) (kiln_gpu_passed_by_partitions or kiln_scaler_disbelieved_partitions) > 0",
        for_seconds=60,
        summary="Accepted work is passed by",
        description=f"In {value_of('partition')} of work of pool {{{{ $labels.pool }}}} the end is below what the "
        "ledger, or the group's offset, calls finished: what is written there now is drawn by nobody.",
    )
    yield Alert(
        name="KilnCardFault",
        severity="critical",
        expr="max by (pool, instance, fault) (kiln_gpu_card_fault) > 0",
        for_seconds=30,
        summary="A card is broken",
        description="The card of {{ $labels.instance }} (pool {{ $labels.pool }}) says {{ $labels.fault }} "
        "({{ $value }}).",
    )
    yield Alert(
        name="KilnViewStale",
        severity="warning",
        expr="max by (instance, view) (kiln_admission_view_age_seconds or kiln_gpu_view_age_seconds or "
        "kiln_gate_view_age_seconds or "
        'label_replace(kiln_scaler_source_age_seconds, "view", "$1", "source", "(.*)")) '
        f"> {number(settings.view_age_seconds_max)}",
        for_seconds=60,
        summary="A process works by what it heard long ago",
        description="{{ $labels.instance }} has heard nothing of {{ $labels.view }} for "
        "{{ $value | humanizeDuration }}: what was said since is not known there.",
    )
    yield Alert(
        name="KilnTenantAboveBudget",
        severity="warning",
        expr=f"sum by (tenant) (increase(kiln_gpu_cost_usd_total[1d])) * {number(DAYS_A_MONTH)} "
        "> on(tenant) max by (tenant) (last_over_time(kiln_gpu_tenant_budget_usd_per_month[1d]))",
        for_seconds=900,
        summary="A tenant's pictures cost more than its budget, if it goes on so",
        description="At the last day's pace the pictures of {{ $labels.tenant }} cost {{ $value | humanize }} USD a "
        "month, more than its budget in tenants.yaml.",
    )
