"""Stories of processes: admission, and any that works."""

from tests.infra.rules.case import Case, Firing

_A = 'instance="a:1"'
_HOPPER = 'pool="hopper",instance="a:1"'
_DECISIONS = "kiln_admission_decisions_total"

ADMISSION = (
    Case(
        "KilnAdmissionAbsent",
        "nobody tells of partitions",
        {"kiln_gpu_paused": "0x10"},
        3,
        [
            Firing(
                "No admission process has been scraped for two minutes (expected: 1 or more; missing: 1). Requests "
                "wait, and every alert that reads admission is silent."
            )
        ],
        not_yet=1,
    ),
    Case("KilnAdmissionAbsent", "one process is there", {'kiln_admission_partitions{state="open"}': "4x10"}, 9),
    Case(
        "KilnAdmissionAbsent",
        "it was gone for a minute",
        {'kiln_admission_partitions{state="open"}': "4 stale 4x10"},
        1,
    ),
    Case(
        "KilnRequestsStand",
        "a topic is missing, and admission waits for it by name",
        {
            f'kiln_admission_lag{{partition="2",{_A}}}': "5x20",
            f'kiln_admission_next_offset{{partition="2",{_A}}}': "100x20",
            f"kiln_admission_stalled_seconds{{{_A}}}": "0x20",
        },
        12,
        [
            Firing(
                "5 requests of requests[2] wait at a:1, and none was decided for ten minutes.",
                {"partition": "2", "instance": "a:1"},
            )
        ],
        not_yet=4,
    ),
    Case(
        "KilnRequestsStand",
        "a backlog that is worked on, and a partition without requests",
        {
            f'kiln_admission_lag{{partition="2",{_A}}}': "500x20",
            f'kiln_admission_next_offset{{partition="2",{_A}}}': "0x4 50x4 100x4 150x8",
            f'kiln_admission_lag{{partition="3",{_A}}}': "0x20",
            f'kiln_admission_next_offset{{partition="3",{_A}}}': "7x20",
        },
        12,
    ),
    Case(
        "KilnRejectionSpike",
        "half of the requests are refused, most for their quota",
        {
            f'{_DECISIONS}{{verdict="accepted",code="",{_A}}}': "0+10x20",
            f'{_DECISIONS}{{verdict="rejected",code="rate_limited",{_A}}}': "0+8x20",
            f'{_DECISIONS}{{verdict="rejected",code="unknown_config",{_A}}}': "0+2x20",
        },
        15,
        [Firing("50% of the requests of ten minutes were refused, most of them as rate_limited.")],
        not_yet=2,
    ),
    Case(
        "KilnRejectionSpike",
        "a tenth is refused",
        {
            f'{_DECISIONS}{{verdict="accepted",code="",{_A}}}': "0+90x20",
            f'{_DECISIONS}{{verdict="rejected",code="rate_limited",{_A}}}': "0+10x20",
        },
        15,
    ),
    Case(
        "KilnRejectionSpike",
        "all are refused, and they are few",
        {f'{_DECISIONS}{{verdict="rejected",code="unknown_config",{_A}}}': "0+1x20"},
        15,
    ),
    Case(
        "KilnDeadLetters",
        "one record cannot be read",
        {f'kiln_gpu_dead_letters_total{{reason="malformed",{_HOPPER}}}': "0x4 1x20"},
        10,
        [
            Firing(
                "1 records of fifteen minutes were dead-lettered by a GPU consumer as malformed; nobody gets a result "
                "for them.",
                {"by": "a GPU consumer", "reason": "malformed"},
            )
        ],
    ),
    Case(
        "KilnDeadLetters",
        "there were some long ago",
        {f'kiln_admission_dead_letters_total{{reason="malformed",{_A}}}': "0 7x30"},
        25,
    ),
    Case(
        "KilnDecisionsNotEmitted",
        "the broker refuses work",
        {
            f'kiln_admission_not_emitted{{partition="2",{_A}}}': "0 7x20",
            f"kiln_admission_emission_retries_total{{{_A}}}": "0 0+1x20",
        },
        8,
        [
            Firing(
                "7 accepted jobs of requests[2] or more wait for the broker's acknowledgement, and producing them has "
                "failed again and again.",
                {"partition": "2", "instance": "a:1"},
            )
        ],
        not_yet=3,
    ),
    Case(
        "KilnDecisionsNotEmitted",
        "whenever one looks some are on their way, and none has failed",
        {
            f'kiln_admission_not_emitted{{partition="2",{_A}}}': "7x20",
            f"kiln_admission_emission_retries_total{{{_A}}}": "3x20",
        },
        8,
    ),
    Case(
        "KilnDecisionsNotEmitted",
        "one failed and went through at once",
        {
            f'kiln_admission_not_emitted{{partition="2",{_A}}}': "0 7 0 7 0 7 0 7 0 7 0 7",
            f"kiln_admission_emission_retries_total{{{_A}}}": "0 0 1x20",
        },
        9,
    ),
    Case(
        "KilnOffsetsNotRenewed",
        "a right is missing",
        {f'kiln_admission_offset_renewals_total{{group="kiln.gpu.hopper",outcome="failed",{_A}}}': "0x9 1x200"},
        90,
        [
            Firing(
                "1 tries of a day to renew the offsets of the group kiln.gpu.hopper failed, and none went well: once "
                "they expire, KEDA counts as work what was done long ago.",
                {"group": "kiln.gpu.hopper"},
            )
        ],
        not_yet=60,
    ),
    Case(
        "KilnOffsetsNotRenewed",
        "one failed, and the next went well",
        {
            f'kiln_admission_offset_renewals_total{{group="kiln.gpu.hopper",outcome="failed",{_A}}}': "0x9 1x200",
            f'kiln_admission_offset_renewals_total{{group="kiln.gpu.hopper",outcome="renewed",{_A}}}': "3x50 4x200",
        },
        120,
    ),
    Case(
        "KilnStableOffsetStuck",
        "a stranger's transaction stays open",
        {
            f'kiln_admission_unstable_seconds{{topic="kiln.results",{_A}}}': "0 0+60x10",
            f'kiln_gpu_unstable_seconds{{topic="kiln.work.hopper.bulk",{_HOPPER}}}': "0x10",
        },
        5,
        [
            Firing(
                "The last stable offset of a partition of kiln.results has stood for 4m 0s below its end: no reader of "
                "committed records sees what came after it.",
                {"topic": "kiln.results"},
            )
        ],
        not_yet=3,
    ),
    Case(
        "KilnStableOffsetStuck",
        "an owner was killed, and its transaction runs out",
        {
            f'kiln_admission_unstable_seconds{{topic="kiln.results",{_A}}}': "0 18 0 0 12 0 0 0 0 0",
            f'kiln_gpu_unstable_seconds{{topic="kiln.work.hopper.bulk",{_HOPPER}}}': "50x10",
        },
        5,
    ),
)
PROCESSES = (
    Case(
        "KilnNoProgress",
        "a consumer's client has died without a word",
        {
            f"kiln_gpu_stalled_seconds{{{_HOPPER}}}": "0 0 50 110",
            f"kiln_admission_stalled_seconds{{{_A}}}": "0x10",
        },
        2,
        [
            Firing(
                "a:1 has work, waits for nothing that it could name, and has not moved for 50s.",
                {"pool": "hopper", "instance": "a:1"},
            )
        ],
    ),
    Case(
        "KilnNoProgress",
        "admission stands",
        {'kiln_admission_stalled_seconds{instance="b:1"}': "0 0 46"},
        2,
        [
            Firing(
                "b:1 has work, waits for nothing that it could name, and has not moved for 46s.",
                {"instance": "b:1"},
            )
        ],
    ),
    Case("KilnNoProgress", "it stood and moved", {f"kiln_gpu_stalled_seconds{{{_HOPPER}}}": "0 40 5 30 0"}, 3),
    Case(
        "KilnLeasesNotOpen",
        "two indexes do not open",
        {
            f'kiln_gpu_indexes{{state="opening",{_HOPPER}}}': "0 2x9",
            f'kiln_admission_partitions{{state="opening",{_A}}}': "0x9",
        },
        3,
        [
            Firing(
                "a:1 has 2 partitions that it could not open for a minute; their work stands.",
                {"pool": "hopper", "instance": "a:1"},
            )
        ],
        not_yet=1,
    ),
    Case("KilnLeasesNotOpen", "a rebalance", {f'kiln_gpu_indexes{{state="opening",{_HOPPER}}}': "0 2 0 0 1 0"}, 4),
    Case(
        "KilnVramHigh",
        "the card is nearly full, and the engine does not see who fills it",
        {
            f"kiln_gpu_card_memory_used_peak_bytes{{{_HOPPER}}}": "90x20",
            f"kiln_gpu_card_memory_total_bytes{{{_HOPPER}}}": "100x20",
            f'kiln_gpu_memory_bytes{{kind="free",{_HOPPER}}}': "40x20",
            f'kiln_gpu_memory_bytes{{kind="total",{_HOPPER}}}': "100x20",
        },
        11,
        [
            Firing(
                "90% of the device memory of a:1 (pool hopper) are in use, for ten minutes now.",
                {"pool": "hopper", "instance": "a:1"},
            )
        ],
        not_yet=9,
    ),
    Case(
        "KilnVramHigh",
        "a device that only its engine tells of is nearly full",
        {
            f'kiln_gpu_memory_bytes{{kind="free",{_HOPPER}}}': "10x20",
            f'kiln_gpu_memory_bytes{{kind="total",{_HOPPER}}}': "100x20",
            f'kiln_gpu_memory_bytes{{kind="reserved",{_HOPPER}}}': "90x20",
        },
        11,
        [
            Firing(
                "90% of the device memory of a:1 (pool hopper) are in use, for ten minutes now.",
                {"pool": "hopper", "instance": "a:1"},
            )
        ],
    ),
    Case(
        "KilnVramHigh",
        "a large batch fills it for five minutes",
        {
            f"kiln_gpu_card_memory_used_peak_bytes{{{_HOPPER}}}": "60x5 95x4 60x11",
            f"kiln_gpu_card_memory_total_bytes{{{_HOPPER}}}": "100x20",
        },
        11,
    ),
    Case(
        "KilnSwapRate",
        "a model is loaded every minute",
        {f"kiln_gpu_model_loads_total{{{_HOPPER}}}": "0+1x90"},
        80,
        [Firing("a:1 (pool hopper) loaded 60 models within an hour.", {"pool": "hopper", "instance": "a:1"})],
        not_yet=25,
    ),
    Case(
        "KilnSwapRate",
        "a roll-out changes a dozen models",
        {f"kiln_gpu_model_loads_total{{{_HOPPER}}}": "0+1x12 12x80"},
        40,
    ),
    Case(
        "KilnEngineRestarts",
        "the engine dies four times",
        {f"kiln_gpu_engine_restarts_total{{{_HOPPER}}}": "0x30 1x5 2x5 3x5 4x60"},
        60,
        [
            Firing(
                "The engine of a:1 (pool hopper) was started again 4 times within an hour.",
                {"pool": "hopper", "instance": "a:1"},
            )
        ],
    ),
    Case(
        "KilnEngineRestarts",
        "the engine dies twice",
        {f"kiln_gpu_engine_restarts_total{{{_HOPPER}}}": "0x30 1x5 2x60"},
        60,
    ),
    Case(
        "KilnProcessRestarts",
        "a consumer is started again and again",
        {
            f"process_start_time_seconds{{{_HOPPER}}}": "1x5 2x5 _ 3x5 4x5 _ 5x5 6x20",
            f"kiln_gpu_pictures_total{{{_HOPPER}}}": "0x5 0x5 _ 0x5 0x5 _ 0x5 0x20",
        },
        40,
        [Firing("a:1 was started again 5 times within an hour.", {"pool": "hopper", "instance": "a:1"})],
    ),
    Case(
        "KilnProcessRestarts",
        "the external scaler is, and says two things of its answers",
        {
            'process_start_time_seconds{instance="s:1"}': "1x5 2x5 3x5 4x5 5x20",
            'kiln_scaler_answers_total{method="GetMetrics",status="OK",instance="s:1"}': "0x40",
            'kiln_scaler_answers_total{method="GetMetrics",status="UNAVAILABLE",instance="s:1"}': "0x40",
        },
        40,
        [Firing("s:1 was started again 4 times within an hour.", {"instance": "s:1"})],
    ),
    Case(
        "KilnProcessRestarts",
        "a process that is not ours is",
        {'process_start_time_seconds{instance="c:1"}': "1x5 2x5 3x5 4x5 5x5 6x20"},
        40,
    ),
    Case(
        "KilnProcessRestarts",
        "a rolling upgrade",
        {
            f"process_start_time_seconds{{{_A}}}": "1x20 2x20",
            f"kiln_admission_repeats_total{{{_A}}}": "5x20 0x20",
        },
        40,
    ),
    Case(
        "KilnJobsFail",
        "a fifth of the jobs fail",
        {
            f'kiln_gpu_settled_total{{status="failed",{_HOPPER}}}': "0+1x30",
            f'kiln_gpu_settled_total{{status="succeeded",{_HOPPER}}}': "0+4x30",
            f'kiln_gpu_settled_total{{status="cancelled",{_HOPPER}}}': "0+50x30",
        },
        20,
        [Firing("20% of the jobs that pool hopper ran in fifteen minutes failed.", {"pool": "hopper"})],
        not_yet=3,
    ),
    Case(
        "KilnJobsFail",
        "two in a hundred fail",
        {
            f'kiln_gpu_settled_total{{status="failed",{_HOPPER}}}': "0+1x30",
            f'kiln_gpu_settled_total{{status="succeeded",{_HOPPER}}}': "0+49x30",
        },
        20,
    ),
    Case(
        "KilnJobsFail",
        "the only job of the night fails",
        {
            f'kiln_gpu_settled_total{{status="failed",{_HOPPER}}}': "0x10 1x20",
            f'kiln_gpu_settled_total{{status="succeeded",{_HOPPER}}}': "9x30",
        },
        20,
    ),
    Case(
        "KilnJobsHeld",
        "a newer admission's work comes to an older consumer",
        {f"kiln_gpu_held_jobs{{{_HOPPER}}}": "3x20", 'kiln_gpu_held_jobs{pool="hopper",instance="b:1"}': "1x20"},
        11,
        [
            Firing(
                "4 jobs of pool hopper are held: their version or their model is not known to the consumer that has "
                "them.",
                {"pool": "hopper"},
            )
        ],
        not_yet=9,
    ),
    Case("KilnJobsHeld", "held until the upgrade came by", {f"kiln_gpu_held_jobs{{{_HOPPER}}}": "0 3x5 0x20"}, 11),
    Case(
        "KilnCardFault",
        "memory errors that nothing corrects",
        {
            f'kiln_gpu_card_fault{{fault="ecc",{_HOPPER}}}': "0 1x5",
            f'kiln_gpu_card_fault{{fault="xid",{_HOPPER}}}': "0x6",
        },
        3,
        [Firing("The card of a:1 (pool hopper) says ecc (1).", {"pool": "hopper", "instance": "a:1", "fault": "ecc"})],
        not_yet=1,
    ),
    Case("KilnCardFault", "the card is whole", {f'kiln_gpu_card_fault{{fault="ecc",{_HOPPER}}}': "0x6"}, 3),
    Case(
        "KilnViewStale",
        "control is not heard of any more",
        {
            f'kiln_gpu_view_age_seconds{{view="control",{_HOPPER}}}': "1 1+60x10",
            f'kiln_admission_view_age_seconds{{view="control",{_A}}}': "1x10",
        },
        5,
        [
            Firing(
                "a:1 has heard nothing of control for 4m 1s: what was said since is not known there.",
                {"instance": "a:1", "view": "control"},
            )
        ],
        not_yet=2,
    ),
    Case(
        "KilnViewStale",
        "the external scaler hears nothing of a ledger",
        {'kiln_scaler_source_age_seconds{pool="hopper",source="ledger",instance="s:1"}': "1 1+60x10"},
        5,
        [
            Firing(
                "s:1 has heard nothing of ledger for 4m 1s: what was said since is not known there.",
                {"instance": "s:1", "view": "ledger"},
            )
        ],
    ),
    Case(
        "KilnViewStale",
        "the broker was started again",
        {
            f'kiln_gpu_view_age_seconds{{view="control",{_HOPPER}}}': "1 31 1 1 70 1 1",
            f'kiln_gpu_view_age_seconds{{view="cancels",{_HOPPER}}}': "50x10",
        },
        4,
    ),
    Case(
        "KilnTenantAboveBudget",
        "a dollar a minute",
        {
            f'kiln_gpu_cost_usd_total{{tenant="atelier",{_HOPPER}}}': "0+1x100",
            f'kiln_gpu_tenant_budget_usd_per_month{{tenant="atelier",{_HOPPER}}}': "2000x100",
        },
        90,
        [
            Firing(
                "At the last day's pace the pictures of atelier cost 2.736k USD a month, more than its budget in "
                "tenants.yaml.",
                {"tenant": "atelier"},
            )
        ],
        not_yet=75,
    ),
    Case(
        "KilnTenantAboveBudget",
        "one within its budget, and one without",
        {
            f'kiln_gpu_cost_usd_total{{tenant="atelier",{_HOPPER}}}': "0+1x100",
            f'kiln_gpu_cost_usd_total{{tenant="bazaar",{_HOPPER}}}': "0+9x100",
            f'kiln_gpu_tenant_budget_usd_per_month{{tenant="atelier",{_HOPPER}}}': "9000x100",
        },
        90,
    ),
)
