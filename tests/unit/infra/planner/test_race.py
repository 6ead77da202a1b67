"""Replays beside each other: giving some up changes no answer."""

import math

import pytest

from infra.planner.cells import free_config
from infra.planner.deciding import PlacedRouter, Routed
from infra.planner.house import House
from infra.planner.race import Aim, Task, race
from infra.planner.replay import GivenUp, Standing, replay, to_its_end
from infra.planner.request import Request
from infra.planner.scalers import Fixed
from infra.planner.shape import Kind, flat
from infra.planner.ways import NAMES, Setting, settings
from schemas.pools import Pool

POOL = Pool(gpu_product="H200", vram_bytes=1, price_usd_per_hour=4, replicas_max=8, partitions=16, load_seconds=30)
KINDS = [
    Kind(free_config("a", "m", 8.0), 3.0, "interactive", 120.0),
    Kind(free_config("b", "n", 20.0), 1.0, "standard", 400.0),
    Kind(free_config("a", "m", 8.0), 2.0, "bulk", 1800.0, together=40),
]
REQUESTS = list(flat(3600.0).arrivals(KINDS, 2.5, 4))
TASK = Task(REQUESTS, POOL, House(POOL.partitions, POOL.load_seconds), 6000.0)
ROUTER = Routed.of(REQUESTS, POOL.partitions)


@pytest.mark.parametrize("goal", [0.9, 1.0])
def test_what_is_given_up_would_not_have_been_the_best_of_its_way(goal: float) -> None:
    tried, aim = list(settings(POOL, 9.0, 9.0)), Aim.of(REQUESTS, goal)
    told: list[float] = []
    raced = race(TASK, tried, aim, told.append)
    assert told == sorted(told)
    assert tried[0] in raced
    every = {setting: TASK.run(setting, to_its_end, ROUTER) for setting in tried}
    for way in NAMES:
        ranks = {setting: aim.rank(outcome) for setting, outcome in every.items() if setting.way == way}
        if way not in ("fixed", "oracle"):
            known = min(aim.rank(raced[setting]) for setting in ranks if setting in raced)
            assert known == min(ranks.values()) or min(ranks.values())[0] > 0, "none of the way reaches the goal"
    best = min(map(aim.rank, every.values()))
    assert best[0] > 0 or best >= min(map(aim.rank, raced.values())), "of all, what an oracle would do"


@pytest.mark.parametrize("goal", [0.5, 0.9, 0.99, 1.0])
def test_the_smallest_size_that_reaches_the_goal_is_found(goal: float) -> None:
    raced = race(TASK, [Setting("lag", 8, 300)], Aim.of(REQUESTS, goal), lambda _: None)
    (found,) = (setting for setting in raced if setting.way == "fixed")
    in_time = {n: TASK.run(Setting("fixed", n), to_its_end, ROUTER).share_in_time for n in range(1, 9)}
    assert found.amount == next((n for n, share in in_time.items() if share >= goal), POOL.replicas_max)


def test_a_replay_is_given_up_when_nobody_wants_its_end_and_tells_before_how_it_stands() -> None:
    seen: list[Standing] = []

    def goes_on(standing: Standing) -> bool:
        seen.append(standing)
        return standing.now < 1800.0

    with pytest.raises(GivenUp):
        replay(REQUESTS, TASK.house, Fixed(3), TASK.until, goes_on=goes_on)
    assert seen[-1].now == pytest.approx(1800.0)
    work = sum(request.seconds for request in REQUESTS)
    assert (seen[0].paid_seconds, seen[0].left_seconds) == (0.0, work)
    assert seen[-1].paid_seconds == pytest.approx(3 * 1800.0)
    assert 0 < seen[-1].left_seconds < work
    outcome = replay(REQUESTS, TASK.house, Fixed(3), TASK.until, closes=True)
    for aim in (Aim.of(REQUESTS, goal) for goal in (0.2, 0.9, 1.0)):
        assert all(aim.rank_at_best(standing) <= aim.rank(outcome) for standing in seen)


def test_a_goal_allows_as_many_misses_as_leave_its_share() -> None:
    for count in (1, 7, 100, 1000, 3333):
        requests = [Request(n, 0.0, KINDS[n % 2].config) for n in range(count)]
        for goal in (0.0, 0.5, 0.99, 0.999, 1.0):
            allowed = Aim.of(requests, goal).allowed
            assert (count - allowed) / count >= goal
            assert allowed == count or (count - allowed - 1) / count < goal
    assert Aim.of(REQUESTS, 1.0).spared_seconds == 0.0


def test_the_router_says_beforehand_what_it_says_in_a_replay() -> None:
    untold = PlacedRouter(POOL.partitions)
    first = [request for request in REQUESTS if request.arrival < 60.0]
    assert [untold.partition(request) for request in first] == [ROUTER.partition(request) for request in first]
    assert not math.isclose(len({ROUTER.partition(request) for request in REQUESTS}), len(KINDS), abs_tol=1)


def test_where_nothing_reaches_the_goal_the_setting_of_most_replicas_stands_for_its_way() -> None:
    pool = POOL.model_copy(update={"replicas_max": 1})
    task, tried = Task(REQUESTS, pool, TASK.house, TASK.until), list(settings(pool, 9.0, 9.0))
    raced = race(task, tried, Aim.of(REQUESTS, 0.99), lambda _: None)
    first = {each.way: each for each in reversed(tried[1:])}
    assert {tried[0], Setting("fixed", 1), first["utilisation"]} <= raced.keys()
    assert raced.keys() <= {tried[0], Setting("fixed", 1), *first.values()}
    assert {each.way for each in raced} >= {"fixed", "utilisation", "lag", "gpu_seconds"}
