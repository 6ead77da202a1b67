"""Stories of GPU consumers: their cards, their engines, what they draw and what that costs."""

from tests.infra.rules.case import Case, Firing

_HOPPER = 'pool="hopper",instance="a:1"'

CONSUMERS = (
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
                "Pool hopper holds 4 jobs of a version or a model that the consumer does not know.",
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
