"""Stories of pools: `hopper` promises 30 s to 99 % and has a budget, `ada` promises 50 s to 90 % and has none."""

from tests.infra.rules.case import Case, Firing

_OLDEST = "kiln_gpu_oldest_job_seconds"
_WAITS = "kiln_gpu_job_wait_seconds"


def _waited(in_time: int, all_of_them: int, minutes: int, lane: str = "standard") -> dict[str, str]:
    labels = f'pool="hopper",instance="a:1",lane="{lane}"'
    return {
        f'{_WAITS}_bucket{{{labels},le="30.0"}}': f"0+{in_time}x{minutes}",
        f"{_WAITS}_count{{{labels}}}": f"0+{all_of_them}x{minutes}",
    }


def _burn(severity: str, late: str, window: str, hours: int) -> Firing:
    return Firing(
        f"{late} of the jobs of pool hopper in {window} waited longer than 30.0 s or expired; 1 % may. At this pace a "
        f"month's share is used up in {hours} hours.",
        {"pool": "hopper"},
        severity,
    )


POOLS = (
    Case(
        "KilnBacklogAboveObjective",
        "jobs of two pools wait for 40 s, which one of them does not promise",
        {
            f'{_OLDEST}{{pool="hopper",instance="a:1",lane="standard",state="waiting"}}': "40x10",
            f'{_OLDEST}{{pool="ada",instance="b:1",lane="standard",state="waiting"}}': "40x10",
        },
        5,
        [
            Firing(
                "The oldest job that waits for pool hopper has waited for 40s; the objective is 30 s. The pool may "
                "have 4 replicas.",
                {"pool": "hopper"},
            )
        ],
        not_yet=1,
    ),
    Case(
        "KilnBacklogAboveObjective",
        "bulk waits, and a long job runs",
        {
            f'{_OLDEST}{{pool="hopper",instance="a:1",lane="bulk",state="waiting"}}': "4000x10",
            f'{_OLDEST}{{pool="hopper",instance="a:1",lane="standard",state="begun"}}': "400x10",
            f'{_OLDEST}{{pool="hopper",instance="a:1",lane="standard",state="waiting"}}': "3x10",
        },
        5,
    ),
    Case(
        "KilnBacklogAboveObjective",
        "an operator has paused the pool",
        {
            f'{_OLDEST}{{pool="hopper",instance="a:1",lane="standard",state="waiting"}}': "400x10",
            'kiln_gpu_paused{pool="hopper",instance="a:1"}': "1x10",
        },
        5,
    ),
    Case(
        "KilnBacklogAboveObjective",
        "a pool that slept is woken",
        {f'{_OLDEST}{{pool="hopper",instance="a:1",lane="standard",state="waiting"}}': "_ 65 70 2x10"},
        3,
    ),
    Case(
        "KilnLagWithoutConsumers",
        "nobody comes",
        {
            'kiln_admission_waiting_gpu_seconds{pool="hopper",lane="standard",instance="a:1"}': "0 90x20",
            'kiln_admission_waiting_gpu_seconds{pool="hopper",lane="standard",instance="b:1"}': "0 90x20",
            'kiln_admission_waiting_gpu_seconds{pool="hopper",lane="bulk",instance="a:1"}': "0 30x20",
            'kiln_admission_pool_consumers{pool="hopper",instance="a:1"}': "0x20",
        },
        6,
        [
            Firing(
                "120 GPU-seconds wait for pool hopper, and nobody is in the group kiln.gpu.hopper, longer than a "
                "replica takes to start.",
                {"pool": "hopper"},
            )
        ],
        not_yet=4,
    ),
    Case(
        "KilnLagWithoutConsumers",
        "somebody comes in time",
        {
            'kiln_admission_waiting_gpu_seconds{pool="hopper",lane="standard",instance="a:1"}': "0 90x20",
            'kiln_admission_pool_consumers{pool="hopper",instance="a:1"}': "0x2 1x20",
        },
        6,
    ),
    Case(
        "KilnLagWithoutConsumers",
        "the pool sleeps and nothing waits",
        {
            'kiln_admission_waiting_gpu_seconds{pool="hopper",lane="standard",instance="a:1"}': "0x20",
            'kiln_admission_pool_consumers{pool="hopper",instance="a:1"}': "0x20",
        },
        6,
    ),
    Case(
        "KilnWaitBudgetBurn",
        "eight of ten wait too long: both speeds are told",
        _waited(2, 10, 90),
        70,
        [_burn("critical", "80%", "1h", 51), _burn("warning", "80%", "6h", 122)],
        not_yet=2,
    ),
    Case(
        "KilnWaitBudgetBurn",
        "a tenth waits too long: slower",
        _waited(9, 10, 90),
        70,
        [_burn("warning", "10%", "6h", 122)],
    ),
    Case(
        "KilnWaitBudgetBurn",
        "those that expired had no slot at all",
        _waited(5, 5, 90) | {'kiln_gpu_settled_total{pool="hopper",instance="a:1",status="expired"}': "0+5x90"},
        70,
        [_burn("critical", "50%", "1h", 51), _burn("warning", "50%", "6h", 122)],
    ),
    Case("KilnWaitBudgetBurn", "one of two hundred waits too long", _waited(199, 200, 90), 70),
    Case("KilnWaitBudgetBurn", "bulk waits, as it may", _waited(0, 10, 90, lane="bulk"), 70),
    Case(
        "KilnWaitBudgetBurn",
        "all of three waited too long",
        {
            f'{_WAITS}_bucket{{pool="hopper",instance="a:1",lane="standard",le="30.0"}}': "0x90",
            f'{_WAITS}_count{{pool="hopper",instance="a:1",lane="standard"}}': "0x60 1x2 2x2 3x30",
        },
        66,
    ),
    Case(
        "KilnWaitBudgetBurn",
        "it was bad half an hour ago and is not any more",
        {
            f'{_WAITS}_bucket{{pool="hopper",instance="a:1",lane="standard",le="30.0"}}': "0x20 0+20x60",
            f'{_WAITS}_count{{pool="hopper",instance="a:1",lane="standard"}}': "0+20x19 400+20x60",
        },
        70,
    ),
    Case(
        "KilnSpendAboveBudget",
        "three GPUs at 4 USD an hour",
        {f'kiln_gpu_pictures_total{{pool="hopper",instance="{name}:1"}}': "0x420" for name in "abc"},
        400,
        [
            Firing(
                "At the last day's pace pool hopper costs 8.76k USD a month; its budget is 6000 USD.",
                {"pool": "hopper"},
            )
        ],
        not_yet=360,
    ),
    Case(
        "KilnSpendAboveBudget",
        "four GPUs for an hour of a quiet day",
        {f'kiln_gpu_pictures_total{{pool="hopper",instance="{name}:1"}}': "_x1439 0x90" for name in "abcd"},
        1510,
    ),
    Case(
        "KilnSpendAboveBudget",
        "two GPUs all day",
        {f'kiln_gpu_pictures_total{{pool="hopper",instance="{name}:1"}}': "0x60" for name in "ab"},
        40,
    ),
    Case(
        "KilnSpendAboveBudget",
        "a dear day is over",
        {f'kiln_gpu_pictures_total{{pool="hopper",instance="{name}:1"}}': "0x1300 stale" for name in "abcd"},
        1420,
    ),
)
