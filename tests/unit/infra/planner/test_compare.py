"""Plans: each way at its best, and what to declare."""

import math

import pytest

from infra.planner.cells import free_config
from infra.planner.compare import Setting, Task, compare
from infra.planner.oracle import needed
from infra.planner.replay import House
from infra.planner.request import Request
from schemas.pools import Pool

CONFIG = free_config("a", "m", 10.0)
POOL = Pool(gpu_product="H200", vram_bytes=1, price_usd_per_hour=4, replicas_max=6, partitions=12, load_seconds=30)


def requests(deadline: float) -> list[Request]:
    """Twenty at once, an hour later twenty more."""
    moments = [start + n / 10 for start in (60.0, 3660.0) for n in range(20)]
    return [Request(n, at, CONFIG, deadline=at + deadline) for n, at in enumerate(moments)]


def task(deadline: float) -> Task:
    return Task(requests(deadline), POOL, House(POOL.partitions, POOL.load_seconds), 5400.0)


def test_every_way_is_at_its_best_and_the_cheapest_that_can_be_declared_is_advised() -> None:
    told: list[float] = []
    found = compare(task(600.0), 10.0, 0.99, told.append)
    assert (told[0], told[-1]) == (0.0, 1.0)
    assert told == sorted(told)
    assert found.work_hours == pytest.approx(400 / 3600)
    assert found.best["fixed"][0].amount == 1
    assert all(outcome.share_in_time >= 0.99 for _, outcome in found.best.values())
    hours = {way: outcome.gpu_hours for way, (_, outcome) in found.best.items()}
    assert hours["oracle"] < hours["gpu_seconds"] < hours["fixed"] <= hours["utilisation"]
    advice = found.advice(0.99)
    assert advice is not None
    assert advice[0].way in ("lag", "gpu_seconds")
    assert found.declared[0] == Setting("lag", 6, POOL.scaling.in_window_seconds)
    assert found.declared[1].paid_seconds >= advice[1].paid_seconds
    assert advice[1].gpu_hours == min(hours["lag"], hours["gpu_seconds"])


def test_nothing_is_advised_where_nothing_reaches_the_goal() -> None:
    found = compare(task(20.0), 10.0, 0.99)
    assert found.advice(0.99) is None
    assert found.best["fixed"][0].amount == POOL.replicas_max


def test_the_oracle_needs_what_the_earliest_deadlines_ask_for() -> None:
    sizes = needed(requests(120.0), 5400.0, 1.0)
    assert max(sizes) == 2, "200 GPU-seconds by 110 s after the first"
    assert (sizes[0], sizes[-1]) == (0, 0)
    assert sum(sizes) * 15 >= 400
    assert math.isclose(max(needed(requests(120.0), 5400.0, 3.0)), 6, abs_tol=1)
