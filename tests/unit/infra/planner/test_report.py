"""A plan as it is told: lines that lead to what was replayed, money beside what is there now, and the picture."""

from io import StringIO
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from infra.planner.cells import free_config
from infra.planner.compare import NAMES, Plan, Setting, Task, Way
from infra.planner.draw import draw
from infra.planner.house import House
from infra.planner.progress import shown
from infra.planner.replay import Outcome, Sample
from infra.planner.report import Case, as_object, declaration, show
from infra.planner.request import Request
from infra.scaling.threshold import lag_threshold
from schemas.errors import CommandError
from schemas.pools import Pool, Scaling

NOW = Pool(
    gpu_product="H200", vram_bytes=1, price_usd_per_hour=4, replicas_max=6, partitions=12, load_seconds=30,
    scaling=Scaling(wait_seconds=60, in_replicas_per_minute=3),
)  # fmt: skip
CONFIG = free_config("a", "m", 10.0)


def outcome(gpu_hours: float, missed: int = 0, most: int = 4) -> Outcome:
    samples = [Sample(60.0 * n, most, most, 0) for n in range(4)]
    return Outcome(
        asked=100, in_time=100 - missed, late=missed, paid_seconds=3600 * gpu_hours, busy_seconds=1800 * gpu_hours,
        replicas_most=most, missed_at=[90.0] * missed, samples=samples,
    )  # fmt: skip


def plan(now: tuple[Setting, Outcome], **best: tuple[float, int, Outcome]) -> Plan:
    """`best`: amount, window and outcome of each way."""
    found: dict[Way, tuple[Setting, Outcome]] = {}
    for way in NAMES:
        amount, window, seen = best.get(way, (4.0, 0, outcome(20.0)))
        found[way] = Setting(way, amount, window), seen
    return Plan(5.0, found, now)


def case(pool: Pool = NOW, *, now: Pool = NOW, goal: float = 0.99, hours: float = 48.0, item: float = 10.0) -> Case:
    requests = [Request(0, 0.0, CONFIG), Request(1, hours * 3600, CONFIG, lane="bulk")]
    return Case("fast", now, Task(requests, pool, House(12, 30.0), hours * 3600), item, goal)


def told(found: Plan, case: Case) -> str:
    text = StringIO()
    show(found, case, Console(file=text, width=80, highlight=False, soft_wrap=True))
    return text.getvalue()


LAG = Setting("lag", 6.0, 300)


@pytest.mark.parametrize("item", [10.0, 12.345678, 0.3, 0.0004])
@pytest.mark.parametrize("threshold", [1, 9, 150])
def test_what_is_to_be_declared_leads_to_the_threshold_that_was_replayed(item: float, threshold: int) -> None:
    found = declaration(case(item=item), Setting("lag", threshold, 90), outcome(1.0, most=9))
    pool = Pool.model_validate(NOW.model_dump() | found)
    assert pool.scaling.item_seconds is not None
    assert lag_threshold(pool.scaling.wait_seconds, pool.scaling.item_seconds) == threshold
    assert (pool.replicas_max, pool.partitions, pool.scaling.in_window_seconds) == (9, 18, 90)
    assert pool.scaling.in_replicas_per_minute == 3, "what the pool declares beside it stays"


def test_the_lines_can_be_pasted_and_say_what_they_change() -> None:
    signal = (1920.0, 90, outcome(30.0, 1, most=5))
    text = told(
        plan((LAG, outcome(57.0)), gpu_seconds=signal, lag=(3.0, 0, outcome(50.0)), fixed=(6.0, 0, outcome(36.0))),
        case(),
    )
    lines = [line for line in text.partition("in pools.yaml:")[2].splitlines() if line.startswith("    ")]
    assert "      wait_seconds: 1920  # now 60; what the pool's alerts hold it to, too" in lines
    assert "    replicas_max: 5  # now 6" in lines
    pasted = yaml.safe_load("\n".join(lines))
    assert pasted == {
        "replicas_min": 0, "replicas_max": 5,
        "scaling": {
            "signal": "gpu_seconds", "wait_seconds": 1920, "out_window_seconds": 0, "in_window_seconds": 90,
            "in_replicas_per_minute": 3,
        },
    }  # fmt: skip
    Pool.model_validate(NOW.model_dump() | pasted)
    assert "Take KEDA, GPU-seconds, target 1920 s, window 90 s: $120.00, 1 (1.00%) missed." in text
    assert "Now KEDA, lag, threshold 6, window 300 s: $228.00, 0 (0.00%) missed." in text
    assert "That saves $108.00 (47%) in these 48.0 hours; that is $1,620.00 in 30 days of the same." in text
    assert "which is less" not in text


def test_what_is_good_is_kept_and_a_steady_load_is_told_of_the_fixed_size() -> None:
    text = told(
        plan(
            (LAG, outcome(30.0)),
            lag=(6.0, 300, outcome(30.0)),
            fixed=(3.0, 0, outcome(29.0)),
            gpu_seconds=(60.0, 0, outcome(40.0)),
        ),
        case(),
    )
    assert "Keep the present setting" in text
    assert "3 replicas all the time would do for $116.00, which is less" in text
    assert "set replicas_min and replicas_max to 3." in text


def test_what_reaches_the_goal_may_cost_more_than_what_misses_it() -> None:
    text = told(
        plan(
            (LAG, outcome(20.0, 50)),
            lag=(3.0, 300, outcome(30.0)),
            fixed=(9.0, 0, outcome(99.0)),
            gpu_seconds=(60.0, 0, outcome(40.0)),
        ),
        case(hours=6.0),
    )
    assert (
        "That costs $40.00 (50%) more, and reaches the goal, which the present setting misses, in these 6.0 hours."
        in text
    )


def test_a_goal_that_nothing_reaches_names_what_may_help() -> None:
    bad = {way: (4.0, 0, outcome(20.0, 30, most=6)) for way in NAMES}
    text = told(plan((LAG, outcome(20.0, 50)), **bad), case())
    assert "Nothing that can be declared reaches the goal. KEDA, lag, threshold 4, window 0 s comes nearest" in text
    assert "Every replica that there may be (6) was in use: try --max 12." in text
    assert as_object(plan((LAG, outcome(20.0, 50)), **bad), case())["advice"] is None


def test_what_was_changed_for_the_plan_is_among_the_lines() -> None:
    changed = NOW.model_copy(update={"replicas_max": 40, "partitions": 80, "load_seconds": 5.0})
    found = declaration(case(changed), LAG, outcome(1.0, most=33))
    assert (found["partitions"], found["load_seconds"]) == (66, 5.0)


def test_a_pool_without_a_price_is_told_of_in_gpu_hours() -> None:
    free = NOW.model_copy(update={"price_usd_per_hour": 0.0})
    text = told(plan((LAG, outcome(57.0)), gpu_seconds=(60.0, 90, outcome(30.0))), case(free, now=free))
    assert "$" not in text.partition("Take ")[2]
    assert "That saves 37.0 GPU-hours (65%)" in text


def test_an_oracle_that_does_as_another_says_as_which() -> None:
    found = plan((LAG, outcome(57.0)))
    found.best["oracle"] = Setting("oracle", 1920.0, 90, like="gpu_seconds"), outcome(20.0)
    assert "oracle: KEDA, GPU-seconds" in told(found, case())
    assert as_object(found, case())["ways"][-1]["like"] == "gpu_seconds"


def test_a_plan_is_drawn_with_one_row_for_each_way(tmp_path: Path) -> None:
    found = plan((LAG, outcome(57.0, 3)))
    draw(found, case(), tmp_path / "plan.png")
    assert (tmp_path / "plan.png").read_bytes().startswith(b"\x89PNG")
    draw(found, case(NOW.model_copy(update={"price_usd_per_hour": 0.0}), goal=1.0, hours=0.01), tmp_path / "plan.svg")
    assert all(name in (tmp_path / "plan.svg").read_text() for name in ("GPU-hours", *NAMES.values()))
    with pytest.raises(CommandError, match="cannot be written; name a file in a folder that is there"):
        draw(found, case(), tmp_path / "none" / "plan.png")
    with pytest.raises(CommandError, match=r"cannot be drawn; name a file that ends with \.png or \.svg"):
        draw(found, case(), tmp_path / "plan.word")


def test_a_log_gets_a_line_every_so_often() -> None:
    text, now = StringIO(), iter([0.0, 1.0, 11.0, 12.0, 30.0])
    with shown(1234, Console(file=text, highlight=False), lambda: next(now)) as progress:
        for share in (0.0, 0.3, 0.5, 1.0):
            progress(share)
    assert text.getvalue().splitlines() == [
        "replaying 1,234 requests with each way and setting", "30% after 11 s", "100% after 30 s"
    ]  # fmt: skip


def test_a_terminal_gets_a_bar_that_leaves_nothing_behind() -> None:
    text = StringIO()
    with shown(7, Console(file=text, force_terminal=True, width=80)) as progress:
        progress(0.5)
    assert "replaying 7 requests" in text.getvalue()
    assert "50%" in text.getvalue()
