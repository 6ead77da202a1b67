"""What a consumer costs, as its metrics tell it."""

import pytest

from gpu_consumer.metrics import GpuMetrics
from gpu_consumer.spending import Spending
from schemas.tenants import Quota, Tenants
from tests.kafka import POOL, small_catalogue
from tests.unit.gpu_consumer.work import FixedClock

DECLARED = Tenants(
    tenants={"red": Quota(per_second=1, burst=1, budget_usd_per_month=50), "blue": Quota(per_second=1, burst=1)}
)


def spending_on(metrics: GpuMetrics, tenants: Tenants | None = DECLARED) -> Spending:
    pool = small_catalogue("t").pools[POOL].model_copy(update={"budget_usd_per_month": 1000.0})
    return Spending(metrics, FixedClock(), POOL, pool, tenants)


def test_labels_are_bounded_and_sums_are_whole_all_the_same() -> None:
    metrics = GpuMetrics()
    spending = spending_on(metrics)
    for number in range(500):
        spending.book(f"stranger{number}", f"sketch@{number}", 1.0)
    spending.book("red", "sketch@0", 1.0)

    def by_label(name: str, label: str) -> dict[str, float]:
        (family,) = [family for family in metrics.registry.collect() if family.name == f"kiln_gpu_{name}"]
        return {each.labels[label]: each.value for each in family.samples if each.name.endswith("_total")}

    assert by_label("gpu_seconds", "tenant") == {"red": 1.0, "other": 500.0}
    configs = by_label("config_gpu_seconds", "config")
    assert len(configs) == 201
    assert (configs["sketch@0"], configs["other"], sum(configs.values())) == (2.0, 300.0, 501.0)
    assert sum(by_label("config_cost_usd", "config").values()) == pytest.approx(501 / 3600)
    assert sum(by_label("cost_usd", "tenant").values()) == pytest.approx(501 / 3600)


def test_budgets_are_told_where_they_are_declared() -> None:
    metrics = GpuMetrics()
    spending_on(metrics)
    value = metrics.registry.get_sample_value
    assert value("kiln_gpu_budget_usd_per_month") == 1000.0
    assert value("kiln_gpu_tenant_budget_usd_per_month", {"tenant": "red"}) == 50.0
    assert value("kiln_gpu_tenant_budget_usd_per_month", {"tenant": "blue"}) is None


def test_who_is_named_by_control_is_no_other_any_more_and_has_the_budget_that_it_says() -> None:
    metrics = GpuMetrics()
    spending = spending_on(metrics)
    value = metrics.registry.get_sample_value

    def told(tenant: str) -> tuple[float | None, float | None]:
        budget = value("kiln_gpu_tenant_budget_usd_per_month", {"tenant": tenant})
        return budget, value("kiln_gpu_gpu_seconds_total", {"tenant": tenant})

    for quotas in (
        {"new": Quota(per_second=1, burst=1, budget_usd_per_month=7), "red": Quota(per_second=2, burst=2)},
        {},
    ):
        spending.hear(quotas)
        seen = told("new")[0], told("red")[0]
        assert seen == ((7.0, None) if quotas else (None, 50.0))
        for tenant in ("new", "red", "blue"):
            spending.book(tenant, "sketch@1", 1.0)
    assert (told("new"), told("red"), told("blue"), told("other")) == (
        (None, 1.0), (50.0, 2.0), (None, 2.0), (None, 1.0),
    )  # fmt: skip


def test_without_the_tenants_file_nobody_is_named() -> None:
    metrics = GpuMetrics()
    spending_on(metrics, None).book("red", "sketch@1", 1.0)
    assert metrics.registry.get_sample_value("kiln_gpu_gpu_seconds_total", {"tenant": "other"}) == 1.0
