"""Stories of what comes and goes: pools that sleep, roll-outs, sources that are away; and of the gate."""

from tests.infra.rules.case import Case, Firing

_A = 'instance="a:1"'
_B = 'instance="b:1"'
_HOPPER = 'pool="hopper",instance="a:1"'
_BUDGET = "kiln_gpu_tenant_budget_usd_per_month"
_WAITS = 'kiln_gpu_job_wait_seconds{kind}{{pool="hopper",instance="a:1",lane="standard"{more}}}'

QUIET = (
    Case(
        "KilnTenantAboveBudget",
        "the pool went to sleep an hour ago, and is no cheaper for that",
        {
            f'kiln_gpu_cost_usd_total{{tenant="atelier",{_HOPPER}}}': "0+1x100 stale",
            f'{_BUDGET}{{tenant="atelier",{_HOPPER}}}': "2000x100 stale",
        },
        160,
        [
            Firing(
                "At the last day's pace the pictures of atelier cost 3.055k USD a month, more than its budget in "
                "tenants.yaml.",
                {"tenant": "atelier"},
            )
        ],
        not_yet=75,
    ),
    Case(
        "KilnAdmissionAbsent",
        "a roll-out: one leaves when the next is there",
        {
            f'kiln_admission_partitions{{state="open",{_A}}}': "4x3 0 stale",
            f'kiln_admission_partitions{{state="open",{_B}}}': "_x3 4x10",
        },
        9,
    ),
    Case(
        "KilnLeasesNotOpen",
        "a roll-out: partitions move from one to the next",
        {
            f'kiln_admission_partitions{{state="opening",{_A}}}': "0 4 0 0 stale",
            f'kiln_admission_partitions{{state="opening",{_B}}}': "_ _ 4 0 0 4 0 0",
        },
        7,
    ),
    Case(
        "KilnRequestsStand",
        "a roll-out: the partition goes to another process with its backlog",
        {
            f'kiln_admission_lag{{partition="2",{_A}}}': "500x5 stale",
            f'kiln_admission_next_offset{{partition="2",{_A}}}': "0+10x5 stale",
            f'kiln_admission_lag{{partition="2",{_B}}}': "_x6 500x10",
            f'kiln_admission_next_offset{{partition="2",{_B}}}': "_x6 60+10x10",
        },
        15,
    ),
    Case(
        "KilnRequestsStand",
        "the broker is away, and nobody knows what waits",
        {
            f'kiln_admission_lag{{partition="2",{_A}}}': "5 5 stale",
            f'kiln_admission_next_offset{{partition="2",{_A}}}': "100x20",
        },
        15,
    ),
    Case(
        "KilnViewStale",
        "the broker is away: of admission and of the gate",
        {
            f'kiln_admission_view_age_seconds{{view="ends",{_A}}}': "1 1+60x10",
            'kiln_gate_view_age_seconds{view="ends",instance="g:1"}': "1 1+60x10",
        },
        5,
        [
            Firing(
                f"{instance} has heard nothing of ends for 4m 1s: what was said since is not known there.",
                {"instance": instance, "view": "ends"},
            )
            for instance in ("a:1", "g:1")
        ],
    ),
    Case(
        "KilnLagWithoutConsumers",
        "the group cannot be asked, and nobody knows who is in it",
        {
            f'kiln_admission_waiting_gpu_seconds{{pool="hopper",lane="bulk",{_A}}}': "90x20",
            f'kiln_admission_pool_consumers{{pool="hopper",{_A}}}': "0 stale",
        },
        15,
    ),
    Case(
        "KilnStableOffsetStuck",
        "a broker that is away says no more whether a transaction is open",
        {f'kiln_admission_unstable_seconds{{topic="kiln.results",{_A}}}': "0 30 stale"},
        9,
    ),
    Case(
        "KilnBacklogAboveObjective",
        "the only consumer of a pool leaves with what it had",
        {f'kiln_gpu_oldest_job_seconds{{{_HOPPER},lane="standard",state="waiting"}}': "40 100 stale"},
        9,
    ),
    Case(
        "KilnNoProgress",
        "the gate stands",
        {'kiln_gate_stalled_seconds{instance="g:1"}': "0 0 50"},
        2,
        [Firing("g:1 has work, waits for nothing that it could name, and has not moved for 50s.", {"instance": "g:1"})],
    ),
    Case(
        "KilnProcessRestarts",
        "a pool wakes and sleeps, and an address is given to one pod after another",
        {
            f'process_start_time_seconds{{pool="hopper",pod="p{number}",{_A}}}': f"_x{8 * number} {number}x4 stale"
            for number in range(6)
        }
        | {
            f'kiln_gpu_pictures_total{{pool="hopper",pod="p{number}",{_A}}}': f"_x{8 * number} 0x4 stale"
            for number in range(6)
        },
        46,
    ),
    Case(
        "KilnDeadLetters",
        "the gate gets a record that nobody can read",
        {'kiln_gate_dead_letters_total{tenant="atelier",reason="malformed",instance="g:1"}': "0x4 2x20"},
        10,
        [
            Firing(
                "Within fifteen minutes the gate dead-lettered 2 records as malformed, for which nobody gets a result.",
                {"by": "the gate", "reason": "malformed"},
            )
        ],
    ),
    Case(
        "KilnVramHigh",
        "the engine that had filled its device ended",
        {
            f'kiln_gpu_memory_bytes{{kind="free",{_HOPPER}}}': "10x5 stale",
            f'kiln_gpu_memory_bytes{{kind="total",{_HOPPER}}}': "100x20",
        },
        15,
    ),
    Case(
        "KilnWaitBudgetBurn",
        "nothing was asked for since long ago",
        {
            _WAITS.format(kind="_bucket", more=',le="30.0"'): "2x90",
            _WAITS.format(kind="_count", more=""): "100x90",
        },
        70,
    ),
    Case(
        "KilnJobsFail",
        "a pool that fell asleep after its failures",
        {
            f'kiln_gpu_settled_total{{status="failed",{_HOPPER}}}': "0x2 9x3 stale",
            f'kiln_gpu_settled_total{{status="succeeded",{_HOPPER}}}': "9x5 stale",
        },
        25,
    ),
    Case(
        "KilnSpendAboveBudget",
        "a deployment of an hour: no month can be told of it",
        {f'kiln_gpu_pictures_total{{pool="hopper",instance="{name}:1"}}': "0x90" for name in "abcd"},
        80,
    ),
    Case(
        "KilnLedgerBeyondWork",
        "a topic of work was made anew, and its consumer knows it, or only the external scaler",
        {
            f"kiln_gpu_passed_by_partitions{{{_HOPPER}}}": "0 2x10",
            'kiln_scaler_disbelieved_partitions{pool="hopper",instance="s:1"}': "0 2x10",
            'kiln_scaler_disbelieved_partitions{pool="ada",instance="s:1"}': "0 1x10",
        },
        4,
        [
            Firing(
                f"In {number} of work of pool {pool} the end is below what the ledger, or the group's offset, calls "
                "finished: what is written there now is drawn by nobody.",
                {"pool": pool},
            )
            for number, pool in (("2 partitions", "hopper"), ("1 partition", "ada"))
        ],
        not_yet=1,
    ),
    Case(
        "KilnLedgerBeyondWork",
        "nobody can tell where work ends",
        {f"kiln_gpu_passed_by_partitions{{{_HOPPER}}}": "0 NaN NaN NaN 0 0 0 0"},
        5,
    ),
)
