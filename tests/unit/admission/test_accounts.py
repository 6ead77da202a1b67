"""Accounts: refunds, counts by status, and leaving."""

from typing import Any

import pytest

from admission.decide import decide
from schemas.partition import partition_of
from schemas.tenancy import TenantRecord, UsageRecord
from schemas.tenants import KeyQuota, Quota, Rate, Span, Tenants
from tests.unit.admission.scene import (
    BIRTH,
    NOW_MS,
    TENANT,
    Partition,
    accepted,
    arrival,
    make_world,
    rejected,
    request,
)

HOUR_MS = 3_600_000
GPU = Rate(per_second=0.001, burst=20.0)
DEFAULT = Quota(per_second=1.0, burst=5.0)


def partition(tenants: Tenants, **limits: Any) -> Partition:
    return Partition(make_world(tenants=tenants, **limits))


def listed(**quota: Any) -> Partition:
    return partition(Tenants(tenants={TENANT: Quota(per_second=100.0, burst=100.0, **quota)}))


def end(partition: Partition, job_id: str, status: str, gpu_seconds: float) -> None:
    partition.finish(job_id, gpu_seconds, status)
    partition.log()


def gpu_tokens(partition: Partition, name: str = TENANT) -> float:
    account = partition.state.account(name)
    assert account is not None
    assert account.levels.gpu is not None
    return account.levels.gpu.tokens


@pytest.mark.parametrize(
    ("status", "used", "left"),
    [
        ("succeeded", 0.5, 14.0),
        ("succeeded", 100.0, 14.0),
        ("failed", 2.0, 18.0),
        ("failed", 100.0, 14.0),
        ("expired", 0.0, 20.0),
        ("cancelled", 5.5, 14.5),
    ],
)
def test_what_did_not_succeed_pays_for_what_it_used_alone(status: str, used: float, left: float) -> None:
    one = listed(
        gpu_seconds=GPU, day=Span(gpu_seconds=30.0), keys={"k": KeyQuota(per_second=9, burst=9, gpu_seconds=GPU)}
    )
    work = accepted(one.send(request(images=3, key="k")))
    end(one, work.job_id, status, used)
    assert gpu_tokens(one) == gpu_tokens(one, "alice/k") == left
    account = one.state.account(TENANT)
    assert account is not None
    assert account.levels.day is not None
    assert account.levels.day.gpu_seconds == 20.0 - left
    assert account.levels.day.requests == 1
    assert account.tokens == 99.0, "a request that was made stays made"
    assert (account.finished, account.ended, account.gpu_seconds) == (1, {status: 1}, used)
    one.state.check_integrity()


@pytest.mark.parametrize("used", [float("nan"), float("inf"), -1.0])
def test_a_use_that_cannot_be_is_none(used: float) -> None:
    """JSON readers take NaN and Infinity, and an account with one could never be written again."""
    one = listed(gpu_seconds=GPU)
    end(one, accepted(one.send(request(images=3))).job_id, "failed", used)
    account = one.state.account(TENANT)
    assert account is not None
    assert (account.gpu_seconds, gpu_tokens(one)) == (0.0, 20.0)


def test_a_refund_is_given_once_whatever_is_read_again() -> None:
    one = listed(gpu_seconds=GPU)
    first, second = (accepted(one.send(request(each, images=3))) for each in "ab")
    end(one, first.job_id, "expired", 0.0)
    assert gpu_tokens(one) == 14.0
    successor, _ = one.take_over()
    one.state = successor
    assert gpu_tokens(one) == 14.0
    assert successor.results_next == 1
    end(one, second.job_id, "cancelled", 1.0)
    assert gpu_tokens(one) == 19.0


def test_a_job_that_is_given_up_costs_its_price() -> None:
    one = partition(
        Tenants(tenants={TENANT: Quota(per_second=100.0, burst=100.0, gpu_seconds=GPU)}),
        default_deadline_seconds=10,
        outstanding_slack_seconds=0,
    )
    accepted(one.send(request(images=3)))
    one.send(b"", at_ms=NOW_MS + 10_000)
    assert not one.state.outstanding
    assert gpu_tokens(one) == 14.0


def test_a_record_from_before_the_meters_is_still_read() -> None:
    old = b'{"schema_version":1,"tokens":2.0,"as_of_ms":%d,"accepted":3,"finished":3,"gpu_seconds":7.5}' % NOW_MS
    one = listed(gpu_seconds=GPU)
    one.tenants.append((TENANT.encode(), old))
    one.state, _ = one.take_over()
    account = one.state.account(TENANT)
    assert account is not None
    assert account.record() == TenantRecord(tokens=2.0, as_of_ms=NOW_MS, accepted=3, finished=3, gpu_seconds=7.5)
    accepted(one.send(request(images=3)))
    assert gpu_tokens(one) == 14.0


# Leaving -------------------------------------------------------------------------------------------------------------


def left(partition: Partition) -> list[UsageRecord]:
    return [UsageRecord.model_validate_json(value) for _, value in partition.usage]


def test_a_tenant_of_the_default_quota_leaves_and_its_counts_are_told_once() -> None:
    one = partition(Tenants(default=DEFAULT))
    work = accepted(one.send(request("a")))
    rejected(one.send(request("b", seed=-1)))
    end(one, work.job_id, "failed", 1.5)
    one.send(b"", at_ms=NOW_MS + HOUR_MS - 1)
    assert one.state.account(TENANT) is not None
    one.send(b"", at_ms=NOW_MS + HOUR_MS)
    assert one.state.account(TENANT) is None
    assert dict(one.tenants)[TENANT.encode()] is None
    assert left(one) == [
        UsageRecord(
            tenant=TENANT, birth=BIRTH, since=1, until_ms=NOW_MS + HOUR_MS,
            accepted=1, rejected=1, finished=1, ended={"failed": 1}, gpu_seconds=1.5,
        )
    ]  # fmt: skip
    one.send(b"", at_ms=NOW_MS + 9 * HOUR_MS)
    assert len(one.usage) == 1


def test_one_who_comes_back_is_new() -> None:
    one = partition(Tenants(default=DEFAULT))
    rejected(one.send(request("a", seed=-1)))
    one.send(b"", at_ms=NOW_MS + HOUR_MS)
    accepted(one.send(request("b"), at_ms=NOW_MS + HOUR_MS))
    account = one.state.account(TENANT)
    assert account is not None
    assert (account.accepted, account.rejected, account.since) == (1, 0, 2)
    assert [each.rejected for each in left(one)] == [1]
    one.state.check_integrity()


def test_nobody_leaves_with_a_job_outstanding_or_a_meter_that_is_not_full() -> None:
    slow = Quota(per_second=1.0, burst=5.0, gpu_seconds=Rate(per_second=0.0001, burst=20.0), day=Span(requests=9))
    one = partition(Tenants(default=slow))
    work = accepted(one.send(request("a")))
    full_ms = NOW_MS + 20_000_000
    one.send(b"", at_ms=full_ms)
    assert one.state.account(TENANT) is not None, "its job is outstanding"
    end(one, work.job_id, "succeeded", 2.0)
    assert one.state.account(TENANT) is not None, "the day is not over"
    one.send(b"", at_ms=(NOW_MS // 86_400_000 + 1) * 86_400_000)
    assert one.state.account(TENANT) is None


def test_a_job_that_came_after_the_turn_to_leave_was_taken_keeps_it() -> None:
    one = partition(Tenants(default=DEFAULT))
    rejected(one.send(request("a", seed=-1)))
    work = accepted(one.send(request("b"), at_ms=NOW_MS + 1))
    one.send(b"", at_ms=NOW_MS + 2 * HOUR_MS)
    one.state.check_integrity()
    end(one, work.job_id, "succeeded", 2.0)
    assert one.state.account(TENANT) is None
    assert [(each.accepted, each.rejected) for each in left(one)] == [(1, 1)]


def test_a_busy_tenant_has_one_turn_to_leave() -> None:
    one = partition(Tenants(default=DEFAULT))
    for n in range(50):
        rejected(one.send(request(f"r{n}", seed=-1), at_ms=NOW_MS + n))
    assert len(one.state._accounts._by_leaving) == 1
    one.send(b"", at_ms=NOW_MS + HOUR_MS + 48)
    assert one.state.account(TENANT) is not None
    one.send(b"", at_ms=NOW_MS + HOUR_MS + 49)
    assert one.state.account(TENANT) is None


def test_a_time_to_leave_that_comes_nearer_is_the_one_that_counts() -> None:
    """By another quota, or by a refund: a successor knows nothing of the time before, and lets it leave then."""
    slow = Quota(per_second=1.0, burst=5.0, gpu_seconds=Rate(per_second=0.0001, burst=20.0))
    one = partition(Tenants(default=slow))
    work = accepted(one.send(request("a", images=4)))
    end(one, work.job_id, "failed", 0.0)
    rejected(one.send(request("b", seed=-1), at_ms=NOW_MS + 1000))
    one.state.check_integrity()
    successor, _ = one.take_over()
    for state in (one.state, successor):
        late = arrival(b"", state.next, at_ms=NOW_MS + HOUR_MS + 1000)
        state.apply(late, decide(late, state, one.world, late.appended_ms))
        assert list(state.accounts()) == []
        state.check_integrity()
    never = arrival(b"", one.state.next, at_ms=NOW_MS + 999 * HOUR_MS)  # its first turn comes, and nobody is there
    one.state.apply(never, decide(never, one.state, one.world, never.appended_ms))
    assert len(one.state.drain_left()) == 1


def test_those_who_leave_together_are_told_in_one_order_whoever_lived_through_it() -> None:
    """A successor queues them anew, by what they are now; the predecessor by what they were when their turn began."""
    one = partition(Tenants(default=Quota(per_second=0.0001, burst=5.0)))
    one.send(request("a", tenant="ivan", seed=-1))
    end(one, accepted(one.send(request("b", tenant="ivan", key="k"))).job_id, "failed", 1.0)
    successor, _ = one.take_over()
    told = []
    for state in (one.state, successor):
        late = arrival(request("c", tenant="alice", seed=-1), state.next, at_ms=NOW_MS + 24 * HOUR_MS)
        state.apply(late, decide(late, state, one.world, late.appended_ms))
        told.append(state.drain_left())
    assert [key for key, _ in told[0]] == [b"ivan", b"ivan/k"]
    assert told[0] == told[1]


def test_a_key_that_the_default_lists_leaves_with_its_tenant() -> None:
    one = partition(Tenants(default=Quota(per_second=1.0, burst=5.0, keys={"k": KeyQuota(per_second=1.0, burst=1.0)})))
    work = accepted(one.send(request("a", key="k")))
    end(one, work.job_id, "succeeded", 2.0)
    one.send(b"", at_ms=NOW_MS + HOUR_MS)
    assert list(one.state.accounts()) == []


def test_the_result_of_the_last_job_lets_it_leave() -> None:
    one = partition(Tenants(default=DEFAULT))
    work = accepted(one.send(request("a")))
    one.send(b"", at_ms=NOW_MS + 2 * HOUR_MS)
    end(one, work.job_id, "succeeded", 2.0)
    assert one.state.account(TENANT) is None
    assert [each.gpu_seconds for each in left(one)] == [2.0]


def test_a_listed_tenant_stays_and_its_unlisted_key_leaves() -> None:
    one = listed(keys={"k": KeyQuota(per_second=1.0, burst=1.0)})
    for key in ("k", "x"):
        work = accepted(one.send(request(key, key=key)))
        end(one, work.job_id, "succeeded", 2.0)
    one.send(b"", at_ms=NOW_MS + 24 * HOUR_MS)
    assert [name for name, _ in one.state.accounts()] == [TENANT, "alice/k"]
    assert [(each.tenant, each.key, each.accepted) for each in left(one)] == [(TENANT, "x", 1)]


def test_a_flood_of_strangers_does_not_stay() -> None:
    one = partition(Tenants(default=DEFAULT), account_idle_seconds=60)
    world = one.world.catalogue.requests_partitions
    names = [name for name in (f"s{n}" for n in range(2000)) if partition_of(name.encode(), world) == 1]
    for n, name in enumerate(names):
        rejected(one.send(request("a", tenant=name, seed=-1), at_ms=NOW_MS + n * 1000))
    assert len(list(one.state.accounts())) <= 61
    assert len(one.usage) == len(names) - len(list(one.state.accounts()))
