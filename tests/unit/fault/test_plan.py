"""A plan is the same for the same seed, and holds every fault that fault-smoke promises."""

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from schemas.partition import partition_of
from tests.fault.plan import Blow, Kind, Plan, make_plan
from tests.fault.storm import describe

_NOW = datetime(2030, 1, 1, tzinfo=UTC)
_SEEDS = range(20)


def _plan(seed: int) -> Plan:
    return make_plan(seed, requests=200, processes=2, session_seconds=3.0)


def test_the_seed_is_the_plan() -> None:
    assert describe(_plan(5)) == describe(_plan(5))
    assert describe(_plan(5)) != describe(_plan(6))


@pytest.mark.parametrize("seed", _SEEDS)
def test_every_plan_has_every_fault(seed: int) -> None:
    plan = _plan(seed)
    blows = Counter((fault.blow, fault.kind) for fault in plan.faults if fault.blow is not Blow.RESET)
    assert blows == {(Blow.KILL, kind): 5 for kind in Kind} | {(Blow.FREEZE, kind): 1 for kind in Kind}
    assert sum(fault.blow is Blow.RESET for fault in plan.faults) == 1
    assert all(fault.asleep_seconds > 3.0 for fault in plan.faults if fault.blow is Blow.FREEZE)


@pytest.mark.parametrize("seed", _SEEDS)
def test_every_plan_has_every_kind_of_request(seed: int) -> None:
    sendings = [sending for act in _plan(seed).acts for sending in act.records]
    assert [sending.number for sending in sendings] == list(range(len(sendings)))
    names = {sending.wish.meaning.name for sending in sendings}
    assert len(names - {None}) == 200
    ends = {end for sending in sendings for end in sending.wish.meaning.ends}
    assert {"succeeded", "expired", "rejected:rate_limited"} <= ends
    assert None in names
    for trait in ("of", "astray"):
        assert any(getattr(sending, trait) for sending in sendings)
    assert any(sending.wish.meaning.payload for sending in sendings)
    assert any(sending.wish.spaced for sending in sendings)


@pytest.mark.parametrize("seed", _SEEDS)
def test_what_repeats_or_conflicts_comes_after_what_it_follows(seed: int) -> None:
    """At its home partition: the log would otherwise make another record the request."""
    at_home: set[tuple[str, str]] = set()
    for act in _plan(seed).acts:
        for sending in act.records:
            wish, name = sending.wish, sending.wish.meaning.name
            if sending.of is not None or wish.spaced or wish.meaning.payload:
                assert name in at_home
            elif name is not None and not sending.astray and wish.key == name[0].encode():
                at_home.add(name)


def test_bytes_are_the_same_but_for_the_deadline() -> None:
    sendings = [sending for act in _plan(3).acts for sending in act.records]
    late = next(sending.wish for sending in sendings if sending.wish.deadline_after_seconds is not None)
    calm = next(s.wish for s in sendings if s.wish.deadline_after_seconds is None and s.wish.meaning.name)
    later = _NOW + timedelta(seconds=1)
    assert late.render(_NOW)[0] != late.render(later)[0]
    assert calm.render(_NOW) == calm.render(later)


def test_the_tenants_live_on_more_than_one_partition() -> None:
    tenants = {s.wish.meaning.name[0] for act in _plan(0).acts for s in act.records if s.wish.meaning.name}
    assert len({partition_of(tenant.encode(), 4) for tenant in tenants}) > 1
