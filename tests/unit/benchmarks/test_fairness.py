"""The house of bench-fairness, and who asks in it."""

import pytest

from gpu_consumer.engine.virtual.device import VirtualDevice
from schemas.tenants import Quota, Tenants
from tests.benchmarks.fairness.house import House, world_of
from tests.benchmarks.fairness.workload import Ask, bursts, evenly, flood, mixed

DEVICE = VirtualDevice()
PLENTY = Quota(per_second=1e6, burst=1e6)


def house(quota: Quota) -> House:
    return House(world_of(Tenants(default=quota), 8, 4, DEVICE), 4, 1, DEVICE)


def test_everything_asked_for_is_drawn_and_takes_at_least_its_steps() -> None:
    asks = mixed([Ask(float(n), "other") for n in range(10)], flood([3.0] * 30))
    seen = house(PLENTY).run(asks)
    assert {tenant: len(took) for tenant, took in seen.took.items()} == {"other": 10, "flood": 30}
    assert min(seen.took["other"]) >= 8 * DEVICE.step_seconds(4)
    assert set(seen.lanes) == {("other", "standard"), ("flood", "standard")}


def test_a_flood_overflows_and_its_rate_is_bounded() -> None:
    shared = PLENTY.model_copy(update={"outstanding_gpu_seconds": 3 / 4 * 8 * DEVICE.step_seconds(4)})
    seen = house(shared).run(flood([0.0] * 20))
    assert seen.lanes["flood", "bulk"] > seen.lanes["flood", "standard"] > 0
    strict = house(Quota(per_second=0.001, burst=5)).run(flood([0.0] * 20))
    assert (len(strict.took["flood"]), strict.refused["rate_limited"]) == (5, 15)


def test_a_bursty_tenant_has_the_rate_that_was_asked_for() -> None:
    for moments in (bursts(2000, 4.0, 0), evenly(2000, 4.0, 0)):
        assert moments == sorted(moments)
        assert moments[-1] == pytest.approx(500.0, rel=0.1)
