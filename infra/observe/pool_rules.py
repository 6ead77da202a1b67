"""What a pool promises and costs, against what it does. Thresholds are its own, from pools.yaml.

Bulk has no objective: it runs when the other lanes leave something.
"""

import math
from collections.abc import Iterator

from gpu_consumer.metrics import METRICS
from infra.observe.panel import HOURS_A_MONTH
from infra.observe.rule import Alert, Recording, Severity, number
from infra.observe.settings import AlertSettings
from schemas.counted import counted
from schemas.pools import Pool
from schemas.topics import Catalogue

_SIGHT_SECONDS = 120  # until admission has looked at the groups again, and Prometheus at admission

_PACE_HOURS = 6  # of less no month's bill can be told: a new deployment begins with what it had put off

_ALL = 0.9  # where a pool allows so much lateness that no burn can be so quick
# How much quicker than allowed the lateness of a month is used up, seen over a long window and, so that the alert ends
# soon after its cause, over a short one: table 5-8 of "The Site Reliability Workbook" (O'Reilly, 2018).
_BURNS: tuple[tuple[Severity, float, str, str], ...] = (("critical", 14.4, "1h", "5m"), ("warning", 6.0, "6h", "30m"))


def pool_rules(name: str, pool: Pool, catalogue: Catalogue, settings: AlertSettings) -> Iterator[Alert | Recording]:
    labels = {"pool": name}
    scaling = pool.scaling
    yield Recording("pool:kiln_consumers:count", f"count(kiln_gpu_pictures_total{{{_of(name)}}}) or vector(0)", labels)
    yield Recording(
        "pool:kiln_waiting_gpu_seconds:sum",
        f"sum(max by (lane) (kiln_admission_waiting_gpu_seconds{{{_of(name)}}}))",
        labels,
    )
    yield Recording(
        "pool:kiln_spend_usd_per_hour:sum",
        f"pool:kiln_consumers:count{{{_of(name)}}} * {number(pool.price_usd_per_hour)}",
        labels,
    )
    yield Alert(
        name="KilnBacklogAboveObjective",
        severity="warning",
        expr=f'max by (pool) (kiln_gpu_oldest_job_seconds{{{_of(name)},state="waiting",lane!="bulk"}}) '
        f"> {number(scaling.wait_seconds)} unless on(pool) max by (pool) (kiln_gpu_paused{{{_of(name)}}}) == 1",
        for_seconds=math.ceil(pool.load_seconds) + 60,
        labels=labels,
        summary="Work waits longer than its pool's objective",
        description="The oldest job that waits for pool {{ $labels.pool }} has waited for "
        f"{{{{ $value | humanizeDuration }}}}; the objective is {number(scaling.wait_seconds)} s. The pool may have "
        f"{counted(pool.replicas_max, 'replica')}.",
    )
    yield Alert(
        name="KilnLagWithoutConsumers",
        severity="critical",
        expr=f"pool:kiln_waiting_gpu_seconds:sum{{{_of(name)}}} > 0 "
        f"and on(pool) max by (pool) (kiln_admission_pool_consumers{{{_of(name)}}}) == 0",
        for_seconds=math.ceil(pool.load_seconds) + scaling.polling_seconds + _SIGHT_SECONDS,
        labels=labels,
        summary="Work waits for a pool that has no consumers",
        description=f"{{{{ $value | humanize }}}} GPU-seconds wait for pool {{{{ $labels.pool }}}}, and nobody is in "
        f"the group {catalogue.gpu_group(name)}, longer than a replica takes to start.",
    )
    yield from _late(name, pool, settings)
    if pool.budget_usd_per_month is not None:
        spend = f"pool:kiln_spend_usd_per_hour:sum{{{_of(name)}}}"
        yield Alert(
            name="KilnSpendAboveBudget",
            severity="warning",
            expr=f"avg_over_time({spend}[1d]) * {HOURS_A_MONTH} > {number(pool.budget_usd_per_month)} "
            f"and avg_over_time({spend}[1h]) * {HOURS_A_MONTH} > {number(pool.budget_usd_per_month)} "
            f"and present_over_time({spend}[10m] offset {_PACE_HOURS}h)",
            for_seconds=900,
            labels={"pool": name},
            summary="A pool costs more than its budget, if it goes on so",
            description="At the last day's pace pool {{ $labels.pool }} costs {{ $value | humanize }} USD a month; its "
            f"budget is {number(pool.budget_usd_per_month)} USD.",
        )


def _late(name: str, pool: Pool, settings: AlertSettings) -> Iterator[Alert | Recording]:
    """The share of jobs that waited longer than the objective, or expired; nothing where no bucket can tell."""
    bound = _bucket(pool.scaling.wait_seconds)
    if bound is None:
        return
    lane = f'{_of(name)},lane!="bulk"'
    for window in ("5m", "30m", "1h", "6h"):
        in_time = f'sum(rate(kiln_gpu_job_wait_seconds_bucket{{{lane},le="{bound}"}}[{window}]))'
        began = f"sum(rate(kiln_gpu_job_wait_seconds_count{{{lane}}}[{window}]))"
        expired = f'(sum(rate(kiln_gpu_settled_total{{{_of(name)},status="expired"}}[{window}])) or vector(0))'
        yield Recording(f"pool:kiln_late:ratio_rate{window}", f"1 - {in_time} / ({began} + {expired})", {"pool": name})
    allowed = 1 - pool.scaling.in_time_ratio
    for severity, factor, long, short in _BURNS:
        most = number(min(factor * allowed, _ALL))
        yield Alert(
            name="KilnWaitBudgetBurn",
            severity=severity,
            expr=f"pool:kiln_late:ratio_rate{long}{{{_of(name)}}} > {most} "
            f"and pool:kiln_late:ratio_rate{short}{{{_of(name)}}} > {most} "
            f"and on() sum(increase(kiln_gpu_job_wait_seconds_count{{{lane}}}[{long}])) >= {settings.burn_jobs_min}",
            for_seconds=60,
            labels={"pool": name},
            summary="Too many jobs wait longer than their pool's objective",
            description=f"{{{{ $value | humanizePercentage }}}} of the jobs of pool {{{{ $labels.pool }}}} in {long} "
            f"waited longer than {bound} s or expired; {number(100 * allowed)} % may. At this pace a month's share is "
            f"used up in {number(round(HOURS_A_MONTH / factor))} hours.",
        )


def _of(name: str) -> str:
    return f'pool="{name}"'


def _bucket(seconds: float) -> str | None:
    """The bound of the smallest bucket that holds everything in time, as Prometheus names it."""
    waits = next(metric for metric in METRICS if metric.name == "kiln_gpu_job_wait_seconds")
    return next((str(float(bound)) for bound in waits.buckets if bound >= seconds), None)
