"""For who keeps it running: does work wait, why, and what does it cost?"""

from infra.observe.panel import ASLEEP, POOL, RATE, Board, Panel, Query

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
            idle="Prometheus does not answer",
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
            idle=ASLEEP,
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
            idle="no admission tells what waits",
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
            idle="no rules of ours are loaded",
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
            idle="no job began within five minutes",
            queries=(Query(f"max by (pool) (pool:kiln_late:ratio_rate5m{{{_POOL}}}) >= 0", "{{pool}}"),),
        ),
        Panel(
            title="Decisions a second",
            description="By verdict and, where it is a refusal, its code.",
            unit="reqps",
            idle="no admission is scraped",
            stacked=True,
            queries=(
                Query(f"sum by (verdict, code) (rate(kiln_admission_decisions_total[{RATE}]))", "{{verdict}} {{code}}"),
            ),
        ),
        Panel(
            title="Jobs ended a second",
            description="By status, as GPU consumers published them.",
            unit="ops",
            idle=ASLEEP,
            stacked=True,
            queries=(Query(f"sum by (status) (rate(kiln_gpu_settled_total{{{_POOL}}}[{RATE}]))", "{{status}}"),),
        ),
        Panel(
            title="Wait until the first slot",
            description="Half of the jobs waited less, and 95 % of them.",
            unit="s",
            idle="no job began",
            queries=tuple(
                Query(
                    f"histogram_quantile({quantile}, "
                    f"sum by (le, lane) (rate(kiln_gpu_job_wait_seconds_bucket{{{_POOL}}}[{RATE}]))) >= 0",
                    f"{{{{lane}}}} {percent} %",
                )
                for quantile, percent in ((0.5, 50), (0.95, 95))
            ),
        ),
        Panel(
            title="What engines do",
            description="GPUs by what they do: all of it is paid, only what is busy draws.",
            unit="short",
            idle=ASLEEP,
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
            idle="no consumer runs: no GPU is paid",
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
            idle=ASLEEP,
            queries=(
                Query(f"max by (pool, instance) (instance:kiln_memory_used:ratio{{{_POOL}}})", "{{pool}} {{instance}}"),
            ),
        ),
        Panel(
            title="What went wrong in ten minutes",
            description="Dead letters, engines started again, and leases that became void. What is not there has none.",
            unit="short",
            idle="nothing is scraped",
            queries=(
                *(
                    Query(f"sum(increase({name}[10m])) or vector(0)", what)
                    for name, what in (
                        ("kiln_admission_dead_letters_total", "dead letters of admission"),
                        ("kiln_gpu_dead_letters_total", "dead letters of consumers"),
                        ("kiln_gate_dead_letters_total", "dead letters of the gate"),
                        ("kiln_gpu_engine_restarts_total", "engine restarts"),
                    )
                ),
                Query(
                    "(sum(increase(kiln_admission_lease_voids_total[10m])) or vector(0)) "
                    "+ (sum(increase(kiln_gpu_lease_voids_total[10m])) or vector(0))",
                    "leases void",
                ),
            ),
        ),
    ),
)
