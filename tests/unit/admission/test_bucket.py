import pytest

from admission.bucket import FOREVER_MS, level, wait_ms
from schemas.tenants import Rate

RATE = Rate(per_second=2.0, burst=10.0)
T = 1_800_000_000_000
DAY_MS = 86_400_000


@pytest.mark.parametrize("step_ms", [-2 * DAY_MS, -11_000, -1])  # case ADM-01
def test_a_clock_that_went_back_takes_nothing_and_adds_nothing(step_ms: int) -> None:
    assert level(4.0, T, RATE, T + step_ms) == 4.0


def test_a_clock_that_went_forward_fills_to_the_burst_and_no_further() -> None:  # case ADM-01
    assert level(4.0, T, RATE, T + 1000) == 6.0
    assert level(4.0, T, RATE, T + 11_000) == 10.0
    assert level(4.0, T, RATE, T + 365 * DAY_MS) == 10.0


def test_a_refill_is_what_time_has_passed_however_often_or_late_one_looks() -> None:
    """Case FST-25: no timer fills a bucket, so none can drift or wake late."""
    ticked, at = 0.0, T
    for late in [1000] * 20 + [6000] + [999] * 10:  # the last of which would be less than a tick of a second
        ticked, at = level(ticked, at, Rate(per_second=0.1, burst=10.0), at + late), at + late
    assert ticked == pytest.approx(level(0.0, T, Rate(per_second=0.1, burst=10.0), at))


def test_a_burst_that_was_lowered_holds_at_once() -> None:
    assert level(10.0, T, Rate(per_second=1.0, burst=3.0), T) == 3.0


def test_the_wait_is_over_when_the_cost_is_there() -> None:
    assert wait_ms(0.0, RATE, 1.0) == 500
    assert level(0.0, T, RATE, T + 499) < 1.0 <= level(0.0, T, RATE, T + 500)
    assert wait_ms(1.0, RATE, 1.0) == 0


def test_tokens_below_zero_count_as_none() -> None:
    assert level(-5.0, T, RATE, T) == 0.0


def test_a_wait_that_rounding_made_too_short_is_a_millisecond_longer() -> None:
    slow = Rate(per_second=0.1, burst=1.0)
    assert level(0.071, T, slow, T + wait_ms(0.071, slow, 1.0)) >= 1.0


def test_a_rate_too_small_for_a_number_has_a_wait_all_the_same() -> None:
    assert wait_ms(0.0, Rate(per_second=5e-324, burst=1e9), 1e9) >= FOREVER_MS
