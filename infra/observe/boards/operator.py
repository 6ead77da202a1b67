"""For who keeps it running: does work wait, why, and what does it cost?"""

from infra.observe.panel import POOL, RATE, Board, Panel, Query

_POOL = 'pool=~"$pool"'

BOARD = Board(
    name="operator",
    title="promptkiln: operator",
    description="Does work wait, why, and what does it cost.",
    variables=(POOL,),
    panels=(
        Panel(
            title="Alerts firing",
            description="Of ours. Each has a page in docs/runbooks.",
            unit="short",
            kind="stat",
            queries=(
                Query(
                    'count(ALERTS{alertstate="firing",alertname=~"Kiln.*",severity="critical"}) or vector(0)',
                    "critical",
                ),
                Query(
                    'count(ALERTS{alertstate="firing",alertname=~"Kiln.*",severity="warning"}) or vector(0)', "warning"
                ),
            ),
        ),
        Panel(
            title="Oldest job that waits",
            description="Since its admission. Above the pool's objective for longer than a replica takes to start, "
            "KilnBacklogAboveObjective tells. Bulk has no objective.",
            unit="s",
            queries=(
                Query(
                    f'max by (pool, lane) (kiln_gpu_oldest_job_seconds{{{_POOL},state="waiting"}})', "{{pool}} {{lane}}"
                ),
            ),
        ),
        Panel(
            title="GPU-seconds accepted and not finished",
            description="As admission's partitions told. What runs counts until its result is back.",
            unit="s",
            stacked=True,
            queries=(
                Query(f"max by (pool, lane) (kiln_admission_waiting_gpu_seconds{{{_POOL}}})", "{{pool}} {{lane}}"),
            ),
        ),
        Panel(
            title="Consumers",
            description="Processes that are scraped, members of the pool's group (one that loads is none yet), and the "
            "fewest that meet every deadline which can be met, where the external scaler runs.",
            unit="short",
            queries=(
                Query(f"max by (pool) (pool:kiln_consumers:count{{{_POOL}}})", "{{pool}} running"),
                Query(f"max by (pool) (kiln_admission_pool_consumers{{{_POOL}}})", "{{pool}} in the group"),
                Query(f"max by (pool) (kiln_scaler_replicas_in_time{{{_POOL}}})", "{{pool}} wanted"),
            ),
        ),
        Panel(
            title="Jobs that wait too long",
            description="The share of the last five minutes that waited longer than the pool's objective, or expired; "
            "bulk left out.",
            unit="percentunit",
            queries=(Query(f"max by (pool) (pool:kiln_late:ratio_rate5m{{{_POOL}}})", "{{pool}}"),),
        ),
        Panel(
            title="Decisions a second",
            description="By verdict and, where it is a refusal, its code.",
            unit="reqps",
            stacked=True,
            queries=(
                Query(f"sum by (verdict, code) (rate(kiln_admission_decisions_total[{RATE}]))", "{{verdict}} {{code}}"),
            ),
        ),
        Panel(
            title="Jobs ended a second",
            description="By status, as GPU consumers published them.",
            unit="ops",
            stacked=True,
            queries=(Query(f"sum by (status) (rate(kiln_gpu_settled_total{{{_POOL}}}[{RATE}]))", "{{status}}"),),
        ),
        Panel(
            title="Wait until the first slot",
            description="Half of the jobs waited less, and 95 % of them.",
            unit="s",
            queries=tuple(
                Query(
                    f"histogram_quantile({quantile}, "
                    f"sum by (le, lane) (rate(kiln_gpu_job_wait_seconds_bucket{{{_POOL}}}[{RATE}])))",
                    f"{{{{lane}}}} {percent} %",
                )
                for quantile, percent in ((0.5, 50), (0.95, 95))
            ),
        ),
        Panel(
            title="What engines do",
            description="GPUs by what they do: all of it is paid, only what is busy draws.",
            unit="short",
            stacked=True,
            queries=(
                Query(
                    f"sum by (pool, state) (rate(kiln_gpu_state_seconds_total{{{_POOL}}}[{RATE}]))",
                    "{{pool}} {{state}}",
                ),
            ),
        ),
        Panel(
            title="Money an hour",
            description="What the pools' GPUs cost, at the prices of pools.yaml, idle time included.",
            unit="currencyUSD",
            stacked=True,
            queries=(
                Query(f"sum by (pool) (rate(kiln_gpu_state_cost_usd_total{{{_POOL}}}[{RATE}])) * 3600", "{{pool}}"),
            ),
        ),
        Panel(
            title="Device memory in use",
            description="The highest since the last scrape where NVML tells it, else as the engine said last. "
            "KilnVramHigh tells above 85 %.",
            unit="percentunit",
            queries=(
                Query(f"max by (pool, instance) (instance:kiln_memory_used:ratio{{{_POOL}}})", "{{pool}} {{instance}}"),
            ),
        ),
        Panel(
            title="What went wrong in ten minutes",
            description="Dead letters, engines started again, and leases that became void.",
            unit="short",
            queries=(
                Query("sum(increase(kiln_admission_dead_letters_total[10m]))", "dead letters of admission"),
                Query("sum(increase(kiln_gpu_dead_letters_total[10m]))", "dead letters of consumers"),
                Query("sum(increase(kiln_gpu_engine_restarts_total[10m]))", "engine restarts"),
                Query(
                    "(sum(increase(kiln_admission_lease_voids_total[10m])) or vector(0)) "
                    "+ (sum(increase(kiln_gpu_lease_voids_total[10m])) or vector(0))",
                    "leases void",
                ),
            ),
        ),
    ),
)
