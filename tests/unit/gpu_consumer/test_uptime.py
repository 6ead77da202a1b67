"""The hours of a consumer, and what each is told as."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_consumer.uptime import Meter
from schemas.codec import encode
from schemas.cost import Price
from schemas.errors import Undecodable
from schemas.uptime import STATES, State, decode_uptime

PRICE = Price("a", 2.0)
HOUR_MS = 3_600_000


def test_seconds_go_to_the_hour_in_which_they_were() -> None:
    meter = Meter(now=100.0)
    start_ms = 10 * HOUR_MS - 30_000  # half a minute before an hour is full
    assert meter.enter("busy", 110.0, start_ms + 10_000) == {"loading": 10.0}
    assert meter.enter("idle", 170.0, start_ms + 70_000) == {"busy": 60.0}
    first, second = meter.news(PRICE, "me")
    assert (first.hour, second.hour) == (datetime(1970, 1, 1, 9, tzinfo=UTC), datetime(1970, 1, 1, 10, tzinfo=UTC))
    assert [first.seconds(state) for state in STATES] == [20.0, 10.0, 0.0]
    assert [second.seconds(state) for state in STATES] == [40.0, 0.0, 0.0]
    assert (first.since, first.at) == (datetime(1970, 1, 1, 9, 59, 30, tzinfo=UTC), second.hour)
    assert (second.since, second.at) == (second.hour, datetime(1970, 1, 1, 10, 0, 40, tzinfo=UTC))
    assert first.key == b"a/me/1970-01-01T09"
    assert decode_uptime(encode(first)) == first
    assert meter.news(PRICE, "me") == []

    meter.advance(180.0, start_ms + 80_000)
    (again,) = meter.news(PRICE, "me")
    assert (again.key, again.busy_seconds, again.idle_seconds) == (second.key, 40.0, 10.0)


def test_what_could_not_be_written_is_told_again() -> None:
    meter = Meter(now=0.0)
    meter.advance(10.0, HOUR_MS + 5_000)
    lost = meter.news(PRICE, "me")
    assert len(lost) == 2
    meter.untold(lost)
    meter.advance(12.0, HOUR_MS + 7_000)
    told = meter.news(PRICE, "me")
    assert [each.key for each in told] == [each.key for each in lost]
    assert sum(each.loading_seconds for each in told) == 12.0


def test_a_clock_that_is_set_back_makes_no_hour_longer_than_an_hour() -> None:
    meter = Meter(now=0.0)
    meter.advance(3600.0, 2 * HOUR_MS)
    meter.advance(7200.0, 2 * HOUR_MS)
    (record,) = meter.news(PRICE, "me")
    assert record.loading_seconds == 3600


def test_hours_that_are_over_and_told_are_forgotten() -> None:
    meter = Meter(now=0.0)
    for hour in range(1, 100):
        meter.advance(hour * 3600.0, hour * HOUR_MS)
        assert len(meter.news(PRICE, "me")) == 1
    assert len(meter._hours) <= 2


@given(
    st.lists(st.tuples(st.sampled_from(STATES), st.floats(0, 9000)), max_size=20),
    st.integers(0, 10 * HOUR_MS),
)
def test_every_second_is_in_one_hour_and_one_state(turns: list[tuple[State, float]], wall_ms: int) -> None:
    meter, now = Meter(now=0.0), 0.0
    told = 0.0
    for state, seconds in turns:
        now += seconds
        told += sum(meter.enter(state, now, 10 * HOUR_MS + wall_ms + int(now * 1000)).values())
    records = meter.news(PRICE, "me")
    assert told == pytest.approx(now)
    assert sum(each.seconds(state) for each in records for state in STATES) == pytest.approx(now, abs=0.01)
    assert len({each.key for each in records}) == len(records)


def test_what_is_no_record_of_hours_is_undecodable() -> None:
    stood = b'"hour": "2026-01-01T00:00:00Z", "at": "2026-01-01T00:01:00Z"'
    with pytest.raises(Undecodable, match="busy_seconds"):
        decode_uptime(b'{"pool": "a", "consumer": "c", ' + stood + b', "busy_seconds": 1e9}')
