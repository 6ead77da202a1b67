"""The week of bench-autoscale, and which setting stands for a way."""

import pytest

from infra.planner.shape import WEEK_SECONDS
from tests.benchmarks.autoscale.__main__ import Case, Seen, _cheapest, cases
from tests.benchmarks.autoscale.workload import GPUS, LIST, SPEED, requests, until


def test_the_week_is_as_much_work_as_is_said_and_the_same_each_time() -> None:
    asked = requests(1)
    work = sum(request.seconds for request in asked)
    assert work / (WEEK_SECONDS / SPEED) == pytest.approx(GPUS, rel=0.1)
    assert sum(request.lane == "bulk" for request in asked) % LIST == 0
    assert max(request.deadline for request in asked) <= until()
    assert [request.arrival for request in asked] == [request.arrival for request in requests(1)]


def test_ours_has_one_setting_and_the_others_a_grid() -> None:
    ways = [case.way for case in cases(120.0)]
    assert ways.count("gpu_seconds") == 1
    assert min(ways.count(way) for way in ("fixed", "utilisation", "lag")) >= 6


def test_the_cheapest_that_is_good_enough_stands_for_its_way() -> None:
    cheap, good, dear = (Case("fixed", 45.0, size) for size in (1, 2, 3))
    seen = {cheap: Seen(1.0, 0.98, 2, 1.0), good: Seen(2.0, 0.995, 1, 0.5), dear: Seen(3.0, 1.0, 0, 0.3)}
    assert _cheapest(seen)[0] == good
    assert _cheapest(seen, 0.999)[0] == dear
    assert _cheapest({cheap: seen[cheap]})[0] == cheap, "where none is, the best there is"
