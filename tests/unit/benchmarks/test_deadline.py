"""The bound of bench-deadline, and its rows."""

import itertools
import random

import pytest

from infra.planner.cells import free_config
from infra.planner.request import Request
from tests.benchmarks.deadline.bound import bound
from tests.benchmarks.deadline.simulate import Case, Row, asked, eager, ours, simulate


def requests(*each: tuple[float, float, float]) -> list[Request]:
    """Of (arrival, seconds, deadline)."""
    return [
        Request(number, at, free_config(f"c{seconds:g}", "one", seconds), deadline=deadline)
        for number, (at, seconds, deadline) in enumerate(each)
    ]


def best(given: list[Request]) -> int:
    """By trying every order of every choice."""
    for size in range(len(given), 0, -1):
        for order in itertools.permutations(given, size):
            now = 0.0
            for request in order:
                now = max(now, request.arrival) + request.seconds
                if now > request.deadline:
                    break
            else:
                return size
    return 0


def test_the_bound_is_what_fits() -> None:
    assert bound(requests((0, 4, 10), (0, 6, 10))) == pytest.approx(2)
    assert bound(requests((0, 4, 10), (0, 12, 14))) == pytest.approx(1 + 10 / 12)
    assert bound(requests((0, 4, 10), (6, 8, 10))) == pytest.approx(1.5)
    assert bound(requests((0, 8, 8), (2, 2, 4))) == pytest.approx(1 + 6 / 8), "it may interrupt"


@pytest.mark.parametrize("seed", range(20))
def test_no_schedule_beats_the_bound(seed: int) -> None:
    draw = random.Random(seed)
    drawn = [(draw.randrange(12), draw.choice((1, 2, 5, 9)), draw.randrange(8)) for _ in range(6)]
    given = requests(*((at, seconds, at + seconds + wait) for at, seconds, wait in sorted(drawn)))
    limit = bound(given)
    assert best(given) <= limit + 1e-9
    assert simulate(given, ours).in_time <= best(given)
    assert simulate(given, Row).in_time <= best(given)


def test_rows_in_the_order_of_arrival() -> None:
    given = requests((0, 10, 30), (1, 10, 15), (2, 4, 16))
    assert eager(given) == 1, "the second is late and makes the third late"
    assert simulate(given, Row).in_time == 1, "the second was begun, and is ended at its deadline: 15 s"
    assert simulate(requests((0, 10, 30), (1, 10, 9), (2, 4, 16)), Row).in_time == 2


def test_what_is_asked_for_is_as_much_as_is_said() -> None:
    given = asked(Case(load=1.2, seed=1, requests=500))
    assert sum(request.seconds for request in given) / given[-1].arrival == pytest.approx(1.2)
    assert all(request.deadline >= request.arrival + request.seconds + 30 - 1e-6 for request in given)


def test_the_same_seed_gives_the_same_figures() -> None:
    case = Case(load=1.0, seed=2, requests=200)
    assert simulate(asked(case), ours).in_time == simulate(asked(case), ours).in_time
