import pytest

from admission.bucket import level, take
from schemas.tenants import Quota

QUOTA = Quota(per_second=2.0, burst=10.0)
T = 1_800_000_000_000
DAY_MS = 86_400_000


@pytest.mark.parametrize("step_ms", [-2 * DAY_MS, -11_000, -1])  # case ADM-01
def test_a_clock_that_went_back_takes_nothing_and_adds_nothing(step_ms: int) -> None:
    assert level(4.0, T, QUOTA, T + step_ms) == 4.0


def test_a_clock_that_went_forward_fills_to_the_burst_and_no_further() -> None:  # case ADM-01
    assert level(4.0, T, QUOTA, T + 1000) == 6.0
    assert level(4.0, T, QUOTA, T + 11_000) == 10.0
    assert level(4.0, T, QUOTA, T + 365 * DAY_MS) == 10.0


def test_a_stale_time_mints_no_tokens() -> None:  # case ADM-02
    tokens, as_of_ms, granted = 10.0, T, 0
    for moment in (T + 10_000, T + 9_000, T + 10_000, T + 9_000, T + 10_000):
        for _ in range(100):
            taken = take(tokens, as_of_ms, QUOTA, moment, 1.0)
            tokens, as_of_ms, granted = taken.tokens, taken.as_of_ms, granted + taken.granted
    assert as_of_ms == T + 10_000
    assert granted == 10


def test_a_burst_that_was_lowered_holds_at_once() -> None:
    assert level(10.0, T, Quota(per_second=1.0, burst=3.0), T) == 3.0


def test_a_refusal_says_when_the_cost_will_be_there() -> None:
    taken = take(0.0, T, QUOTA, T, 1.0)
    assert not taken.granted
    assert taken.retry_after_seconds == 0.5
    assert take(taken.tokens, taken.as_of_ms, QUOTA, T + 499, 1.0).granted is False
    assert take(taken.tokens, taken.as_of_ms, QUOTA, T + 500, 1.0).granted is True


def test_tokens_below_zero_count_as_none() -> None:
    assert level(-5.0, T, QUOTA, T) == 0.0


def test_a_wait_that_rounding_made_too_short_is_a_millisecond_longer() -> None:
    slow = Quota(per_second=0.1, burst=1.0)
    refused = take(0.071, T, slow, T, 1.0)
    assert refused.retry_after_seconds is not None
    assert take(refused.tokens, T, slow, T + round(refused.retry_after_seconds * 1000), 1.0).granted
