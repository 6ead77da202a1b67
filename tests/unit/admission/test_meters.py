"""The meters of a tenant or a key: buckets of requests and GPU-seconds, a day and a month."""

from datetime import UTC, datetime

import pytest

from admission.meters import Levels, at, charged, refunded, renewed_ms, shortages
from admission.spans import day_ends_ms, day_of, month_ends_ms, month_of
from schemas.tenancy import Level, Use
from schemas.tenants import KeyQuota, Rate, Span


def ms(*moment: int) -> int:
    return int(datetime(*moment, tzinfo=UTC).timestamp() * 1000)  # type: ignore[misc, arg-type]


NOON = ms(2027, 1, 31, 12)
PLAIN = KeyQuota(per_second=1.0, burst=5.0)
GPU = KeyQuota(per_second=100.0, burst=100.0, gpu_seconds=Rate(per_second=0.5, burst=20.0))
SPANS = KeyQuota(per_second=100.0, burst=100.0, day=Span(requests=3, gpu_seconds=50.0), month=Span(gpu_seconds=60.0))


def spend(quota: KeyQuota, *costs: float, levels: Levels | None = None, now_ms: int = NOON) -> Levels:
    """Charge each, as decisions 1, 2, ..."""
    for number, cost in enumerate(costs, 1):
        levels = at(levels, quota, now_ms, number)
        assert not list(shortages(levels, quota, cost))
        levels = charged(levels, cost)
    assert levels is not None
    return levels


def waits(levels: Levels, quota: KeyQuota, cost: float) -> list[int | None]:
    return [short.wait_ms for short in shortages(levels, quota, cost)]


def test_what_is_not_declared_is_not_kept() -> None:
    assert spend(PLAIN, 7.0, 7.0) == Levels(3.0, NOON)
    assert at(spend(GPU, 7.0), PLAIN, NOON, 2) == Levels(5.0, NOON)


def test_a_request_takes_one_request_and_its_price() -> None:
    assert spend(GPU, 7.0, 7.0) == Levels(98.0, NOON, Level(6.0, 20.0, 1))
    assert waits(spend(GPU, 7.0, 7.0), GPU, 7.0) == [2000]


def test_gpu_seconds_come_back_at_their_own_rate() -> None:
    later = at(spend(GPU, 20.0), GPU, NOON + 10_000, 2)
    assert later.gpu == Level(5.0, 20.0, 1)
    full = at(later, GPU, NOON + 1_000_000, 3)
    assert full.gpu == Level(20.0, 20.0, 1)


def test_a_price_above_the_burst_or_a_span_never_passes() -> None:
    assert waits(at(None, GPU, NOON, 1), GPU, 20.5) == [None]
    assert waits(at(None, SPANS, NOON, 1), SPANS, 50.5) == [None]
    assert waits(at(None, SPANS, NOON, 1), SPANS, 60.5) == [None, None]


def test_a_day_and_a_month_are_counted_and_end_at_midnight_utc() -> None:
    levels = spend(SPANS, 20.0, 20.0)
    assert levels.day == Use(day_of(NOON), 1, 2, 40.0)
    assert levels.month == Use(month_of(NOON), 1, 2, 40.0)
    assert waits(levels, SPANS, 20.5) == [12 * 3_600_000, 12 * 3_600_000]  # the last day of the month
    assert waits(levels, SPANS, 10.0) == []
    midnight = at(levels, SPANS, NOON + 12 * 3_600_000, 3)
    assert midnight.day == Use(day_of(NOON) + 1, 3)
    assert midnight.month == Use(month_of(NOON) + 1, 3)


def test_requests_of_a_day_are_counted_too() -> None:
    levels = spend(SPANS, 1.0, 1.0, 1.0)
    assert [short.allows for short in shortages(levels, SPANS, 1.0)] == ["3 requests a day (UTC)"]


@pytest.mark.parametrize(
    ("moment", "end"),
    [
        (ms(2027, 1, 31, 23, 59, 59), ms(2027, 2, 1)),
        (ms(2028, 2, 29), ms(2028, 3, 1)),
        (ms(2027, 12, 31, 1), ms(2028, 1, 1)),
        (0, ms(1970, 2, 1)),
    ],
)
def test_a_month_ends_where_the_next_begins(moment: int, end: int) -> None:
    assert month_ends_ms(month_of(moment)) == end
    assert month_of(end) == month_of(moment) + 1
    assert day_ends_ms(day_of(moment)) <= end


def test_a_refund_goes_where_the_price_came_from() -> None:
    both = KeyQuota(per_second=100.0, burst=100.0, gpu_seconds=Rate(per_second=0.5, burst=20.0), day=Span(requests=9))
    levels = refunded(spend(both, 15.0), 1, 4.0)
    assert levels == Levels(99.0, NOON, Level(9.0, 20.0, 1), Use(day_of(NOON), 1, 1, 11.0))


def test_a_refund_is_capped_by_the_burst_and_by_what_was_used() -> None:
    levels = refunded(spend(GPU, 5.0), 1, 100.0)
    assert levels.gpu == Level(20.0, 20.0, 1)
    levels = refunded(spend(SPANS, 5.0), 1, 100.0)
    assert levels.day is not None
    assert (levels.day.requests, levels.day.gpu_seconds) == (1, 0.0)


def test_a_day_that_is_over_gets_nothing_back() -> None:
    levels = at(spend(SPANS, 20.0), SPANS, NOON + 12 * 3_600_000, 2)
    levels = refunded(charged(levels, 30.0), 1, 20.0)
    assert levels.day is not None
    assert levels.day.gpu_seconds == 30.0


def test_a_meter_that_is_declared_anew_is_full_and_refunds_nothing_it_was_not_paid() -> None:
    unmetered = spend(PLAIN, 7.0)
    levels = charged(at(unmetered, GPU, NOON, 2), 10.0)
    assert refunded(levels, 1, 7.0).gpu == Level(10.0, 20.0, 2)
    assert refunded(levels, 2, 7.0).gpu == Level(17.0, 20.0, 2)
    taken_back = at(at(levels, PLAIN, NOON, 3), GPU, NOON, 4)
    assert taken_back.gpu == Level(20.0, 20.0, 4)


def test_a_refund_before_a_raised_burst_is_not_banked() -> None:
    levels = refunded(spend(GPU, 5.0), 1, 100.0)
    more = GPU.model_copy(update={"gpu_seconds": Rate(per_second=0.5, burst=200.0)})
    assert at(levels, more, NOON, 2).gpu == Level(20.0, 200.0, 1)


def test_the_clock_does_not_go_back() -> None:  # case ADM-01
    levels = spend(SPANS, 20.0)
    assert at(levels, SPANS, NOON - 86_400_000, 2) == levels


def test_meters_are_as_good_as_new_once_all_are() -> None:
    assert renewed_ms(spend(PLAIN, 1.0, 1.0), PLAIN) == NOON + 2000
    assert renewed_ms(spend(GPU, 20.0), GPU) == NOON + 40_000
    assert renewed_ms(spend(SPANS, 1.0), SPANS) == ms(2027, 2, 1)
    assert renewed_ms(at(None, SPANS, NOON, 1), SPANS) == NOON
