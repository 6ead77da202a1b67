"""What the HPA makes of a value: one look, windows, policies, bounds."""

import itertools
import math

import pytest

from infra.scaling.hpa import Behaviour, Hpa, Policy, Rules
from schemas.pools import Scaling

FREE = Rules(0, (Policy("Percent", 10_000, 15),))  # so many may come that no test is stopped by it
FREE_DOWN = Rules(0, (Policy("Percent", 100, 15),))


def hpa(up: Rules = FREE, down: Rules = FREE_DOWN, low: int = 1, high: int = 1000) -> Hpa:
    return Hpa(Behaviour(up, down), low, high)


@pytest.mark.parametrize(
    ("value", "have", "wish"),
    [
        (144, 1, 15),
        (64, 1, 7),
        (41, 4, 4),
        (44, 4, 4),
        (44.001, 4, 5),
        (36, 4, 4),
        (35.999, 4, 4),
        (29, 4, 3),
        (0, 4, 1),
        (10.0004, 1, 1),
        (math.nan, 4, 1),
        (-5, 4, 1),
        (56, 1, 6),
    ],
)
def test_one_look_rounds_up_and_leaves_what_is_within_a_tenth(value: float, have: int, wish: int) -> None:
    assert hpa().wish(0, value, 10, have) == wish


@pytest.mark.parametrize(("mean", "wish"), [(0.8, 10), (0.72, 10), (0.71, 9), (0.88, 10), (0.89, 12), (0.0, 1)])
def test_a_metric_of_the_pods_scales_their_number(mean: float, wish: int) -> None:
    assert hpa().wish_mean(0, mean, 0.8, 10, 10) == wish


def test_nothing_comes_of_none() -> None:
    assert hpa().wish(0, 1000, 10, 0) == 0


def test_bounds_hold_and_win_over_windows_and_policies() -> None:
    slow = Rules(3600, (Policy("Pods", 1, 3600),))
    assert hpa(slow, slow, low=3, high=5).wish(0, 10_000, 10, 1) == 3
    assert hpa(slow, slow, low=3, high=5).wish(0, 0, 10, 9) == 5
    assert hpa(low=3, high=5).wish(0, 0, 10, 4) == 3
    assert hpa(low=3, high=5).wish(0, 1000, 10, 4) == 5
    assert hpa(low=0).wish(0, 0, 10, 4) == 1, "the last replica is KEDA's to take"


def test_the_highest_wish_of_the_window_stands_when_fewer_are_wished() -> None:
    scaler = hpa(down=Rules(300, (Policy("Percent", 100, 15),)))
    assert scaler.wish(0, 80, 10, 8) == 8
    assert scaler.wish(15, 50, 10, 8) == 8
    assert scaler.wish(299, 20, 10, 8) == 8
    assert scaler.wish(300, 20, 10, 8) == 5, "what was wished exactly a window ago is over"
    assert scaler.wish(316, 20, 10, 5) == 2


def test_the_lowest_wish_of_the_window_stands_when_more_are_wished() -> None:
    scaler = hpa(up=Rules(60, FREE.policies))
    assert scaler.wish(0, 20, 10, 2) == 2
    assert scaler.wish(30, 90, 10, 2) == 2
    assert scaler.wish(59, 50, 10, 2) == 2
    assert scaler.wish(61, 70, 10, 2) == 5


def test_what_there_is_at_the_first_look_counts_as_wished() -> None:
    assert hpa(down=Rules(300, FREE_DOWN.policies)).wish(0, 0, 10, 8) == 8


def test_so_many_replicas_a_period_and_no_more() -> None:
    scaler = hpa(up=Rules(0, (Policy("Pods", 4, 60),)))
    assert scaler.wish(0, 200, 10, 1) == 5
    assert scaler.wish(30, 200, 10, 5) == 5
    assert scaler.wish(59.9, 200, 10, 5) == 5
    assert scaler.wish(60, 200, 10, 5) == 9


def test_per_cent_of_what_there_was_round_up_out_and_down_in() -> None:
    assert hpa(up=Rules(0, (Policy("Percent", 10, 60),))).wish(0, 200, 10, 1) == 2
    assert hpa(down=Rules(0, (Policy("Percent", 10, 60),))).wish(0, 10, 10, 15) == 13


def test_of_several_policies_the_most_or_the_least_or_none() -> None:
    policies = (Policy("Pods", 4, 15), Policy("Percent", 100, 15))
    assert hpa(up=Rules(0, policies)).wish(0, 500, 10, 10) == 20
    assert hpa(up=Rules(0, policies, "Min")).wish(0, 500, 10, 10) == 14
    assert hpa(up=Rules(0, policies, "Disabled")).wish(0, 500, 10, 10) == 10
    assert hpa(down=Rules(0, policies)).wish(0, 0, 10, 10) == 1
    assert hpa(down=Rules(0, policies, "Min")).wish(0, 0, 10, 10) == 6
    assert hpa(down=Rules(0, policies, "Disabled")).wish(0, 0, 10, 10) == 10


def test_what_left_in_a_period_may_come_back_in_it() -> None:
    scaler = hpa(up=Rules(0, (Policy("Pods", 2, 60),)))
    assert scaler.wish(0, 10, 10, 6) == 1
    assert scaler.wish(15, 200, 10, 1) == 8, "6 at the start of the period, and 2 more"


def test_as_kubernetes_has_it_by_default() -> None:
    assert Hpa(Behaviour(), 1, 1000).wish(0, 1000, 10, 1) == 5, "4 more"
    assert Hpa(Behaviour(), 1, 1000).wish(0, 1000, 10, 10) == 20, "twice as many"


def test_a_pools_settings_are_fast_out_and_slow_in() -> None:
    """Case KEDA-13: what is taken in is one replica a minute, and only what nobody wished for five minutes."""
    scaler, have = Hpa(Behaviour.of(Scaling()), 0, 64), 1
    sizes = []
    for now in range(0, 900, 15):
        have = scaler.wish(now, 200 if now < 60 else 0, 10, have)
        sizes.append(have)
    assert sizes[:5] == [17, 17, 17, 17, 17]
    changes = [now * 15 for now, (a, b) in enumerate(itertools.pairwise(sizes), 1) if a != b]
    assert changes[0] >= 45 + 300
    assert all(b - a >= 60 for a, b in itertools.pairwise(changes))


def test_of_changes_that_count_no_more_in_their_own_direction_one_is_forgotten_at_a_time() -> None:
    """storeScaleEvent writes over the last of them; the others still count where the other direction looks back."""
    up, down = Rules(0, (Policy("Pods", 5, 120),)), Rules(0, (Policy("Percent", 100, 15),))
    made = hpa(up, down)
    looks = ((0, 100, 20), (10, 80, 10), (60, 60, 8))
    assert [made.wish(now, value, 10, have) for now, value, have in looks] == [10, 8, 6]
    assert made.wish(75, 300, 10, 6) == 6 + 10 + 2 + 5
