"""Money: one rule, in decimal."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.cost import Price, cost_usd, rounded, total_usd


@pytest.mark.parametrize(
    ("seconds", "price", "usd"),
    [
        (3600.0, 2.5, "2.500000"),
        (0.25, 1.0, "0.000069"),  # 0.0000694…
        (1.8, 0.001, "0.000000"),  # half a millionth goes to the even one
        (5.4, 0.001, "0.000002"),
        (0.1, 3.6, "0.000100"),  # in floats 0.1 x 3.6 is not 0.36
        (0.0, 9.0, "0.000000"),
        (5.0, 0.0, "0.000000"),
    ],
)
def test_an_amount_is_rounded_to_a_millionth_half_to_even(seconds: float, price: float, usd: str) -> None:
    assert str(cost_usd(seconds, price)) == usd
    assert str(Price("a", price).of(seconds)) == usd


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf"), -0.0])
def test_what_is_no_use_costs_nothing(seconds: float) -> None:
    assert cost_usd(seconds, 5.0) == 0


@given(st.lists(st.tuples(st.floats(0, 1e7), st.floats(0, 1e4)), max_size=30))
def test_a_bill_is_the_sum_of_its_lines(lines: list[tuple[float, float]]) -> None:
    amounts = [cost_usd(seconds, price) for seconds, price in lines]
    assert total_usd(map(float, amounts)) == sum(amounts, Decimal(0))
    assert all(rounded(each) == each and each >= 0 for each in amounts)
    for (seconds, price), usd in zip(lines, amounts, strict=True):
        assert abs(usd - Decimal(seconds) * Decimal(price) / 3600) <= Decimal("0.000001")
