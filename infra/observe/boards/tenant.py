"""For who answers to a tenant: what came of its requests, and what did they cost?"""

from infra.observe.panel import DAYS_A_MONTH, RATE, TENANT, UNDRAWN, Board, Panel, Query

_TENANT = 'tenant=~"$tenant"'

BOARD = Board(
    name="tenant",
    title="promptkiln: tenants",
    description="What came of each tenant's requests, and what they cost. Tenants that are not declared by name are "
    "`other`.",
    variables=(TENANT,),
    panels=(
        Panel(
            title="Decisions a second",
            description="By verdict. A repeat is no decision.",
            unit="reqps",
            idle="no request was decided yet",
            stacked=True,
            queries=(
                Query(
                    f"sum by (tenant, verdict) (rate(kiln_admission_tenant_decisions_total{{{_TENANT}}}[{RATE}]))",
                    "{{tenant}} {{verdict}}",
                ),
            ),
        ),
        Panel(
            title="Refused",
            description="The share of the decisions. Which codes: on the operator's dashboard, and in the results.",
            unit="percentunit",
            idle="nothing was decided",
            queries=(
                Query(
                    "sum by (tenant) "
                    f'(rate(kiln_admission_tenant_decisions_total{{{_TENANT},verdict="rejected"}}[{RATE}])) '
                    f"/ (sum by (tenant) (rate(kiln_admission_tenant_decisions_total{{{_TENANT}}}[{RATE}])) > 0)",
                    "{{tenant}}",
                ),
            ),
        ),
        Panel(
            title="Jobs ended a second",
            description="By status, as admission read it in results.",
            unit="ops",
            idle="no job has ended yet",
            stacked=True,
            queries=(
                Query(
                    f"sum by (tenant, status) (rate(kiln_admission_tenant_jobs_total{{{_TENANT}}}[{RATE}]))",
                    "{{tenant}} {{status}}",
                ),
            ),
        ),
        Panel(
            title="Wait until the first slot",
            description="The mean of jobs that began, from admission on. One tenant's alone that grows: its share, or "
            "its quota, is too small for what it sends. By lane, and what most of them wait: the operator's dashboard.",
            unit="s",
            idle="no job began",
            queries=(
                Query(
                    f"sum by (tenant) (rate(kiln_gpu_tenant_wait_seconds_total{{{_TENANT}}}[{RATE}])) "
                    f"/ (sum by (tenant) (rate(kiln_gpu_tenant_begun_total{{{_TENANT}}}[{RATE}])) > 0)",
                    "{{tenant}}",
                ),
            ),
        ),
        Panel(
            title="GPUs in use",
            description="GPU-seconds a second, as consumers book them.",
            unit="short",
            idle=UNDRAWN,
            stacked=True,
            queries=(Query(f"sum by (tenant) (rate(kiln_gpu_gpu_seconds_total{{{_TENANT}}}[{RATE}]))", "{{tenant}}"),),
        ),
        Panel(
            title="Share of the GPU time",
            description="Of all tenants together, also those that are not chosen above.",
            unit="percentunit",
            idle=UNDRAWN,
            queries=(
                Query(
                    f"sum by (tenant) (rate(kiln_gpu_gpu_seconds_total{{{_TENANT}}}[{RATE}])) "
                    f"/ on() group_left() (sum(rate(kiln_gpu_gpu_seconds_total[{RATE}])) > 0)",
                    "{{tenant}}",
                ),
            ),
        ),
        Panel(
            title="GPU-seconds of a job",
            description="The mean of jobs that ended.",
            unit="s",
            idle="no job ended",
            queries=(
                Query(
                    f"sum by (tenant) (rate(kiln_admission_tenant_gpu_seconds_total{{{_TENANT}}}[{RATE}])) "
                    f"/ (sum by (tenant) (rate(kiln_admission_tenant_jobs_total{{{_TENANT}}}[{RATE}])) > 0)",
                    "{{tenant}}",
                ),
            ),
        ),
        Panel(
            title="Money an hour",
            description="What pictures cost at their pools' prices. Idle time is no tenant's: see the operator's "
            "dashboard. For a bill: kiln cost.",
            unit="currencyUSD",
            idle=UNDRAWN,
            stacked=True,
            queries=(
                Query(f"sum by (tenant) (rate(kiln_gpu_cost_usd_total{{{_TENANT}}}[{RATE}])) * 3600", "{{tenant}}"),
            ),
        ),
        Panel(
            title="A month, at the last day's pace",
            description="Beside it the tenant's budget, where tenants.yaml has one. What was not scraped within the "
            "day counts as nothing: of a deployment that is younger than a day it is too little.",
            unit="currencyUSD",
            idle="nothing was drawn within a day",
            kind="stat",
            queries=(
                Query(
                    f"sum by (tenant) (increase(kiln_gpu_cost_usd_total{{{_TENANT}}}[1d])) * {DAYS_A_MONTH}",
                    "{{tenant}}",
                ),
                Query(
                    f"max by (tenant) (last_over_time(kiln_gpu_tenant_budget_usd_per_month{{{_TENANT}}}[1d]))",
                    "budget of {{tenant}}",
                ),
            ),
        ),
        Panel(
            title="Passed by the gate a second",
            description="Of tenants that have a requests topic of their own.",
            unit="reqps",
            queries=(Query(f"sum by (tenant) (rate(kiln_gate_passed_total{{{_TENANT}}}[{RATE}]))", "{{tenant}}"),),
            empty="no tenant has a topic of its own",
        ),
    ),
)
