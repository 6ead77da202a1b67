"""Which measures make a price, of which pool."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from schemas.codec import encode
from schemas.demand import Demand
from schemas.observation import Observation
from streams.facts.prices import _KEPT, PricesFact
from streams.kafka.settings import KafkaSettings
from tests.unit.admission.scene import make_world

HASH, OTHER = "ab" * 32, "cd" * 32
AT = datetime(2026, 11, 30, 12, tzinfo=UTC)
WORLD = make_world()  # its pool `default` is of H200


@pytest.fixture
def fact() -> PricesFact:
    return PricesFact(KafkaSettings(bootstrap_servers="127.0.0.1:1"), WORLD.catalogue, now=lambda: AT)


def record(gpu_seconds: float, **changes: Any) -> Any:
    fields: dict[str, Any] = {
        "device": "NVIDIA H200", "kind": "kind", "bucket": 4, "config_hash": HASH, "peak_bytes": 0,
        "gpu_seconds": gpu_seconds, "count": 10, "at": AT,
    }  # fmt: skip
    told = Observation(**fields | changes)
    return SimpleNamespace(key=told.key, value=encode(told), offset=7)


def price(fact: PricesFact, config_hash: str = HASH) -> float | None:
    return fact.into(WORLD).prices.get(("default", config_hash))


def test_what_was_measured_on_the_pool_s_card_is_its_price(fact: PricesFact) -> None:
    assert price(fact) is None
    fact.fold(record(1.5))
    fact.fold(record(9.0, config_hash=OTHER))
    assert (price(fact), price(fact, OTHER)) == (1.5, 9.0)


def test_another_card_s_is_not_and_the_pool_s_own_consumer_s_is(fact: PricesFact) -> None:
    fact.fold(record(1.5, device="NVIDIA A100"))
    assert price(fact) is None
    fact.fold(record(2.5, device="Intel(R) Xeon(R)", pool="default"))
    assert price(fact) == 2.5


def test_the_newest_of_a_key_counts_and_keys_by_their_batches(fact: PricesFact) -> None:
    fact.fold(record(8.0))
    fact.fold(record(1.0))
    fact.fold(record(4.0, bucket=1, count=5))
    assert price(fact) == pytest.approx(2.0)


def test_a_measure_of_long_ago_does_not_count_beside_a_new_one(fact: PricesFact) -> None:
    fact.fold(record(8.0, bucket=1, at=AT - timedelta(days=2)))
    assert price(fact) == 8.0
    fact.fold(record(1.0))
    assert price(fact) == 1.0


def test_a_consumer_whose_clock_is_years_ahead_does_not_silence_the_others(fact: PricesFact) -> None:
    fact.fold(record(8.0, bucket=1, at=AT + timedelta(days=1000)))
    fact.fold(record(1.0))
    assert price(fact) == pytest.approx(4.5)


def test_no_seconds_are_no_price_and_what_is_taken_back_is_none(fact: PricesFact) -> None:
    fact.fold(record(0.0))
    assert price(fact) is None
    fact.fold(record(1.0))
    fact.fold(record(0.0))
    assert price(fact) is None
    fact.fold(record(1.0))
    fact.fold(SimpleNamespace(key=record(1.0).key, value=None, offset=8))
    assert price(fact) is None


def test_what_is_no_observation_changes_nothing(fact: PricesFact) -> None:
    fact.fold(record(1.0))
    demand = Demand(partition=0, waiting={}, rates={}, at=AT)
    for key, value in ((demand.key, encode(demand)), (b"x", b"\xff"), (None, b"{}"), (b"y", None)):
        fact.fold(SimpleNamespace(key=key, value=value, offset=8))
    assert price(fact) == 1.0


def test_it_is_bounded_and_the_oldest_are_forgotten(fact: PricesFact) -> None:
    for n in range(_KEPT + 10):
        fact.fold(record(1.0, config_hash=f"{n:064x}"))
    assert len(fact._measures) == len(fact._by_config) == len(fact._prices) == _KEPT
    assert price(fact, f"{0:064x}") is None
    assert price(fact, f"{_KEPT:064x}") == 1.0
