"""What a tenant and its keys may ask for, as a sender sees it."""

from datetime import UTC, datetime
from typing import Any

import pytest

from admission.meters import Levels
from schemas.result import Rejected
from schemas.tenancy import Level
from schemas.tenants import KeyQuota, Quota, Rate, Span, Tenants
from tests.unit.admission.scene import NOW_MS, TENANT, Partition, accepted, decided, make_world, rejected, request

GPU = Rate(per_second=0.5, burst=20.0)
DAY_MS = 86_400_000
MANY = {"name": "many"}


def partition(tenants: Tenants | None = None, **quota: Any) -> Partition:
    own = Quota(per_second=100.0, burst=100.0, **quota)
    return Partition(make_world(tenants=tenants or Tenants(tenants={TENANT: own})))


def refusal(partition: Partition, request_id: str, **how: Any) -> Rejected:
    result = rejected(partition.send(request(request_id, **how)))
    assert result.code == "rate_limited"
    return result


def levels(partition: Partition, name: str = TENANT) -> Levels:
    account = partition.state.account(name)
    assert account is not None
    return account.levels


def test_the_quota_is_a_burst_and_a_rate_and_says_when_to_come_back() -> None:
    partition = Partition()
    for n in range(5):
        accepted(partition.send(request(f"burst-{n}")))
    result = rejected(partition.send(request("late")))
    assert result.code == "rate_limited"
    assert result.retry_after_seconds == 1.0
    assert "1 s" in result.message
    assert rejected(partition.send(request("early"), at_ms=NOW_MS + 999)).code == "rate_limited"
    accepted(partition.send(request("again", retry_of="late"), at_ms=NOW_MS + 1000))


def test_one_tenant_over_its_quota_leaves_the_others_theirs() -> None:
    partition = Partition()
    for n in range(9):
        partition.send(request(f"r{n}"))
    accepted(partition.send(request("r0", tenant="ivan")))


def test_what_is_refused_for_another_reason_costs_nothing() -> None:
    partition = Partition()
    for n in range(20):
        rejected(partition.send(request(f"bad-{n}", seed=-1)))
    for n in range(5):
        accepted(partition.send(request(f"good-{n}")))


def test_a_request_costs_its_price_times_its_images() -> None:
    one = partition(gpu_seconds=GPU)
    assert accepted(one.send(request("a", images=3))).price_gpu_seconds == 6.0
    assert levels(one).gpu == Level(14.0, 20.0, 1)


def test_the_refusal_names_the_meter_what_it_allows_and_when() -> None:
    one = partition(gpu_seconds=GPU)
    for n in range(10):
        accepted(one.send(request(f"r{n}")))
    result = refusal(one, "more")
    assert result.message == (
        "tenant 'alice' has 20 GPU-seconds at once and 0.5 a second; send this again under a new request id in 4 s"
    )
    assert result.retry_after_seconds == 4.0
    refusal(one, "early")
    accepted(one.send(request("in time"), at_ms=NOW_MS + 4000))


def test_the_tightest_meter_is_told_and_all_have_enough_when_it_has() -> None:
    one = partition(gpu_seconds=GPU, day=Span(gpu_seconds=20.0))
    accepted(one.send(request("a", images=9, config=MANY)))
    result = refusal(one, "b", images=2)
    assert "20 GPU-seconds a day (UTC)" in result.message
    assert result.retry_after_seconds is not None
    midnight_ms = (NOW_MS // DAY_MS + 1) * DAY_MS
    assert NOW_MS + round(result.retry_after_seconds * 1000) == midnight_ms
    accepted(one.send(request("c", images=2), at_ms=midnight_ms))


def test_what_costs_more_than_a_meter_ever_has_is_told_so_without_a_time() -> None:
    one = partition(gpu_seconds=GPU)
    result = refusal(one, "a", images=11, config=MANY)
    assert result.retry_after_seconds is None
    assert "20 GPU-seconds at once" in result.message
    assert "costs 22" in result.message
    assert "fewer images" in result.message
    assert result.field == "images"
    assert levels(one).tokens == 100.0


def test_a_key_takes_from_its_own_meters_and_its_tenants_or_from_none() -> None:
    one = partition(gpu_seconds=GPU, keys={"k": KeyQuota(per_second=1.0, burst=2.0)})
    for n in range(2):
        accepted(one.send(request(f"k{n}", key="k")))
    result = refusal(one, "k2", key="k")
    assert result.message.startswith("key 'k' of tenant 'alice' has 2 requests at once and 1 a second")
    assert levels(one).tokens == 98.0, "the tenant pays nothing for what its key may not"
    for n in range(8):
        accepted(one.send(request(f"t{n}")))
    result = refusal(one, "k3", key="k", images=1)
    assert result.message.startswith("tenant 'alice' has 20 GPU-seconds")
    assert levels(one, "alice/k").tokens == 0.0
    assert refusal(one, "k4", key="k").retry_after_seconds == 4.0


def test_a_key_that_is_not_listed_has_the_default_key_s_quota_each_its_own() -> None:
    one = partition(default_key=KeyQuota(per_second=1.0, burst=1.0))
    accepted(one.send(request("a", key="x")))
    accepted(one.send(request("b", key="y")))
    refusal(one, "c", key="x")


def test_a_key_without_a_quota_is_bound_by_its_tenant() -> None:
    one = partition()
    for n in range(100):
        accepted(one.send(request(f"r{n}", key="x")))
    assert refusal(one, "more", key="x").message.startswith("tenant 'alice'")


def test_refused_keys_that_are_not_listed_leave_nothing_behind() -> None:
    one = partition(keys={"k": KeyQuota(per_second=1.0, burst=1.0)})
    for n in range(50):
        rejected(one.send(request(f"r{n}", key=f"random{n}", seed=-1)))
        rejected(one.send(request(f"x{n}", key=f"random{n}", config={"name": "huge"})))
    rejected(one.send(request("listed", key="k", config={"name": "huge"})))
    assert [name for name, _ in one.state.accounts()] == [TENANT, "alice/k"]


@pytest.mark.parametrize("key", ["", "a b", "a/b", "x" * 65, 7, "é"])
def test_a_key_has_the_form_of_a_tenant(key: Any) -> None:
    result = rejected(partition().send(request(key=key)))
    assert (result.code, result.field) == ("invalid_request", "key")


def test_the_decision_says_which_key_asked() -> None:
    one = partition()
    assert decided(one.send(request("a", key="x"))).key == "x"
    assert decided(one.send(request("b", key="x", config={"name": "huge"}))).key == "x"
    assert decided(one.send(request("c"))).key is None


def test_a_month_is_a_month_of_quota_time() -> None:
    one = partition(month=Span(requests=1))
    accepted(one.send(request("a")))
    result = refusal(one, "b")
    assert result.retry_after_seconds is not None
    end = datetime.fromtimestamp(NOW_MS / 1000 + result.retry_after_seconds, UTC)
    assert (end.day, end.hour, end.minute, end.second) == (1, 0, 0, 0)
    accepted(one.send(request("c"), at_ms=round(end.timestamp() * 1000)))
