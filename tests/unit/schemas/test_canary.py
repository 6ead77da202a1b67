"""Who gets which version of a channel."""

from collections import Counter

import pytest
from pydantic import TypeAdapter, ValidationError

from schemas.canary import Weights, drawn

NAMES = [f"blue/{n}".encode() for n in range(4000)]
WEIGHTS: TypeAdapter[dict[int, float]] = TypeAdapter(Weights)


def shares(*choices: tuple[str, float]) -> dict[str, list[bytes]]:
    drawn_by = {label: list[bytes]() for label, _ in choices}
    for name in NAMES:
        drawn_by[choices[drawn(choices, name)][0]].append(name)
    return drawn_by


def test_a_version_alone_is_all_of_its_channel() -> None:
    assert WEIGHTS.validate_python(3) == {3: 1.0}
    assert WEIGHTS.validate_python({1: 95, 2: 5}) == {1: 95.0, 2: 5.0}


@pytest.mark.parametrize(
    "given", [{}, {1: 0, 2: 0}, {1: -1}, {1: float("nan")}, {1: float("inf")}, {0: 1}, {1: 1e7}, None, True, [1], "one"]
)
def test_weights_that_mean_nothing_are_refused(given: object) -> None:
    with pytest.raises(ValidationError):
        WEIGHTS.validate_python(given)


def test_a_version_gets_its_share() -> None:
    """Weights need not add up to anything. 4,000 draws of 5 % deviate by 14; five times that is allowed."""
    counts = Counter({label: len(names) for label, names in shares(("sketch@1", 19), ("sketch@2", 1)).items()})
    assert abs(counts["sketch@2"] - 200) < 70


def test_the_same_request_gets_the_same_version_whatever_the_order() -> None:
    assert shares(("sketch@1", 3), ("sketch@2", 2)) == shares(("sketch@2", 2), ("sketch@1", 3))


def test_weights_that_do_not_differ_by_more_than_a_factor_split_alike() -> None:
    assert shares(("sketch@1", 30), ("sketch@2", 20)) == shares(("sketch@1", 0.3), ("sketch@2", 0.2))


def test_a_canary_that_grows_keeps_whom_it_has() -> None:
    few, more = shares(("sketch@1", 95), ("sketch@2", 5)), shares(("sketch@1", 80), ("sketch@2", 20))
    assert set(few["sketch@2"]) < set(more["sketch@2"])


def test_a_third_version_moves_nobody_between_the_others() -> None:
    two = shares(("sketch@1", 1), ("sketch@2", 1))
    three = shares(("sketch@1", 1), ("sketch@2", 1), ("sketch@3", 1))
    assert set(three["sketch@1"]) < set(two["sketch@1"])
    assert set(three["sketch@2"]) < set(two["sketch@2"])


def test_canaries_of_two_configs_hit_different_requests() -> None:
    one, other = shares(("sketch@1", 9), ("sketch@2", 1)), shares(("poster@1", 9), ("poster@2", 1))
    both = set(one["sketch@2"]) & set(other["poster@2"])
    assert len(both) < len(one["sketch@2"]) / 3


def test_extreme_weights_are_weights() -> None:
    assert len(shares(("sketch@1", 1e6), ("sketch@2", 5e-324))["sketch@2"]) == 0
