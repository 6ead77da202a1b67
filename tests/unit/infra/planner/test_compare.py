"""Plans: each way at its best, and what to declare."""

import math

import pytest

from infra.planner.cells import free_config
from infra.planner.compare import Setting, Task, compare
from infra.planner.house import House
from infra.planner.oracle import HASTE, needed
from infra.planner.request import Request
from infra.planner.shape import Kind, flat
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


@pytest.mark.parametrize(("seed", "gpus", "goal"), [(1, 2.0, 1.0), (2, 4.0, 0.95), (3, 9.0, 1.0)])
def test_no_way_misses_fewer_deadlines_than_the_oracle_for_as_many_gpu_hours(
    seed: int, gpus: float, goal: float
) -> None:
    """Also where models are swapped all the time, and where no pool could do it all."""
    kinds = [Kind(free_config(f"c{n}", f"m{n}", 2.0 + n), 1.0, "standard", 90.0 + 60 * n) for n in range(6)]
    requests = list(flat(600.0).arrivals(kinds, gpus, seed))
    found = compare(Task(requests, POOL, House(POOL.partitions, POOL.load_seconds), 1200.0), 4.5, goal)
    _, oracle = found.best["oracle"]
    for _, outcome in (*found.best.values(), found.declared):
        assert outcome.paid_seconds > oracle.paid_seconds or outcome.missed >= oracle.missed
        assert goal < 1.0 or outcome.missed >= oracle.missed


def test_the_oracle_needs_what_the_earliest_deadlines_ask_for() -> None:
    sizes = needed(requests(120.0), 5400.0, 1.0, 6)
    assert max(sizes) == 2 * HASTE, "200 GPU-seconds by 110 s after the first"
    assert (sizes[0], sizes[-1]) == (0, 0)
    assert sum(sizes) * 15 >= 400
    assert math.isclose(max(needed(requests(120.0), 5400.0, 3.0, 6)), 6, abs_tol=1)
    assert max(needed(requests(30.0), 5400.0, 3.0, 6)) == 6, "no more than there may be"
    assert sum(needed(requests(30.0), 5400.0, 1.0, 2)) * 15 < 400, "what is too late is given up"
    assert not any(needed(requests(math.inf), 5400.0, 1.0, 6)), "what has no deadline is never due"
