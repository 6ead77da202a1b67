"""Whose word on what waits is believed, and for how long."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from schemas.codec import encode
from schemas.demand import Demand
from streams.facts.waits import WaitsFact
from streams.kafka.groups import Member
from streams.kafka.settings import KafkaSettings
from streams.metrics import AdmissionMetrics
from streams.settings import AdmissionServiceSettings
from tests.unit.admission.scene import make_world


@pytest.fixture
def fact() -> WaitsFact:
    kafka = KafkaSettings(bootstrap_servers="127.0.0.1:1")
    return WaitsFact(kafka, make_world().catalogue, cast(Any, None), AdmissionServiceSettings(), AdmissionMetrics())


def demand(partition: int, seconds: float = 1.0, *, age_seconds: float = 0) -> Demand:
    at = datetime.now(UTC) - timedelta(seconds=age_seconds)
    return Demand(partition=partition, waiting={"default": {"bulk": seconds}}, rates={"default": {"m/c": 2.0}}, at=at)


def record(value: Demand | bytes, key: bytes | None = None) -> Any:
    known = value.key if isinstance(value, Demand) else None
    return SimpleNamespace(key=key or known, value=encode(value) if isinstance(value, Demand) else value, offset=7)


def test_the_latest_word_of_a_partition_replaces_its_former(fact: WaitsFact) -> None:
    for each in (demand(0, 1.0), demand(1, 5.0), demand(0, 3.0)):
        fact.fold(record(each))
    assert {at: each.waiting["default"]["bulk"] for at, each in fact.demands().items()} == {0: 3.0, 1: 5.0}


@pytest.mark.parametrize(("age_seconds", "believed"), [(50, True), (70, False), (-3600, True)])
def test_an_old_word_is_not_believed(fact: WaitsFact, age_seconds: float, believed: bool) -> None:
    fact.fold(record(demand(0, age_seconds=age_seconds)))
    assert (0 in fact.demands()) is believed


def test_a_teller_whose_clock_runs_ahead_is_believed_no_longer_than_others(
    fact: WaitsFact, monkeypatch: pytest.MonkeyPatch
) -> None:
    fact.fold(record(demand(0, age_seconds=-3600)))
    later = time.monotonic() + 61
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert fact.demands() == {}


@pytest.mark.parametrize(
    "stray",
    [
        record(b"no demand", b"demand/0"),
        record(encode(demand(0)).replace(b'"bulk":1.0', b'"bulk":-1.0'), b"demand/0"),
        record(encode(demand(0)), b"demand/1"),
        record(encode(demand(4)), b"demand/4"),
        record(encode(demand(0)), b"a-model/1/hash/a card"),
        SimpleNamespace(key=b"demand/0", value=None, offset=0),
        SimpleNamespace(key=None, value=b"", offset=0),
    ],
)
def test_what_is_no_word_of_a_partition_of_ours_changes_nothing(fact: WaitsFact, stray: Any) -> None:
    fact.fold(record(demand(1)))
    fact.fold(stray)
    assert set(fact.demands()) == {1}


def test_the_rates_that_a_former_owner_told_are_handed_on_with_their_age(fact: WaitsFact) -> None:
    assert fact.rates_before(0) is None
    fact.fold(record(demand(0, age_seconds=500)))
    found = fact.rates_before(0)
    assert found is not None
    rates, age = found
    assert rates == {"default": {"m/c": 2.0}}
    assert 499 < age < 700


class OneAndAVisitor:
    """Every group has a consumer, and somebody who renews its offsets at this moment."""

    def __init__(self) -> None:
        self.asked_again = asyncio.Event()
        self._asked = 0

    async def members(self, groups: list[str]) -> dict[str, list[Member]]:
        self._asked += 1
        if self._asked > 1:
            self.asked_again.set()
        ids = ("promptkiln-5f0c", "promptkiln-renewal-77aa")
        return {group: [Member(each, "127.0.0.1", b"") for each in ids] for group in groups}


async def test_who_only_renews_offsets_is_no_gpu() -> None:
    kafka, cluster = KafkaSettings(bootstrap_servers="127.0.0.1:1"), OneAndAVisitor()
    settings = AdmissionServiceSettings(refresh_seconds=0.01)
    fact = WaitsFact(kafka, make_world().catalogue, cast(Any, cluster), settings, AdmissionMetrics())
    looking = asyncio.create_task(fact._look_at_groups())
    await asyncio.wait_for(cluster.asked_again.wait(), 60)
    looking.cancel()
    assert {wait.gpus for wait in fact.now().values()} == {1}


async def test_what_nobody_tells_any_more_is_exposed_no_more(fact: WaitsFact, monkeypatch: pytest.MonkeyPatch) -> None:
    def told(name: str, **labels: str) -> float | None:
        fact._waits = fact.now()
        fact._expose()
        found: float | None = fact._metrics.registry.get_sample_value(f"kiln_admission_{name}", labels)
        return found

    waiting = {"pool": "default", "lane": "bulk"}
    assert told("waiting_gpu_seconds", **waiting) is None, "nobody has said anything yet, which is not nothing"
    fact._gpus = dict.fromkeys(fact._catalogue.pools, (2, time.monotonic()))
    fact.fold(record(demand(0, 3.0)))
    assert (told("waiting_gpu_seconds", **waiting), told("pool_consumers", pool="default")) == (3, 2)
    assert told("waiting_gpu_seconds", pool="default", lane="interactive") == 0
    later = time.monotonic() + 61
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert told("waiting_gpu_seconds", **waiting) is told("pool_consumers", pool="default") is None
    assert fact.age_seconds >= 61, "by which an alert tells of it"
