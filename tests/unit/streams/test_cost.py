"""What a period cost, from results and from the hours of consumers."""

import io
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from rich.console import Console

from schemas.deployment import DeploymentSettings
from schemas.result import Cancelled, ConfigUsed, Expired, Failed, Rejected
from schemas.uptime import STATES, Uptime
from streams.commands.cost import Budgets, as_object, month_of, show
from streams.cost import UNKNOWN, Costs

NOON = datetime(2026, 11, 10, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def ended(minutes: float, tenant: str = "red", **fields: object) -> Failed:
    config = ConfigUsed(name="shapes", version=1, hash="0" * 64, model_digest="d")
    values: dict[str, object] = {"gpu_seconds": 1.5, "cost_usd": 0.000417, "pool": "a", "config": config}
    at = NOON + timedelta(minutes=minutes)
    return Failed.model_validate(
        {"tenant": tenant, "request_id": "r", "job_id": "j", "finished_at": at, "code": "blank_output", "message": "m"}
        | values
        | fields
    )


def hour(at: datetime, consumer: str = "c", price: float = 2.0, pool: str = "a", **seconds: float) -> Uptime:
    last = at + timedelta(seconds=sum(seconds.values()))
    values = {f"{state}_seconds": seconds.get(state, 0.0) for state in STATES}
    return Uptime(pool=pool, consumer=consumer, hour=at, at=last, price_usd_per_hour=price, **values)


@pytest.fixture
def costs() -> Iterator[Costs]:
    made = Costs(NOON + timedelta(minutes=20), NOON + 2 * HOUR, NOON + 3 * HOUR)
    yield made
    total = sum((each.usd for each in made.tenants.values()), Decimal(0))
    for sums in (made.configs, made.pools):  # each is another view of the same results
        assert sum((each.usd for each in sums.values()), Decimal(0)) == total


def test_results_are_summed_by_tenant_config_and_pool(costs: Costs) -> None:
    names = {"tenant": "blue", "request_id": "r", "job_id": "j", "finished_at": NOON, "message": "m"}
    for result in (
        ended(0),
        ended(30, cost_usd=0.1),  # in floats 0.1 + 0.2 is more than 0.3
        ended(40, cost_usd=0.2),
        ended(-1),  # before the period, which begins with its full hour
        ended(120),
        Cancelled.model_validate(names | {"gpu_seconds": 0.5, "cost_usd": 0.000139, "pool": "a"}),
        Expired.model_validate(names | {"deadline": NOON, "gpu_seconds": 2.0}),  # an earlier release's
        Cancelled.model_validate(names),  # by admission, which has nothing to charge
        Rejected.model_validate(names | {"code": "paused"}),
        ended(5, tenant="blue", gpu_seconds=float("nan"), cost_usd=float("inf")),  # nobody's of ours
    ):
        costs.fold_result(result)
    red, blue = costs.tenants["red"], costs.tenants["blue"]
    assert (red.requests, red.gpu_seconds, red.usd) == (3, 4.5, Decimal("0.300417"))
    assert (blue.requests, blue.gpu_seconds, blue.usd, blue.unpriced) == (4, 2.5, Decimal("0.000139"), 1)
    assert {name: each.requests for name, each in costs.configs.items()} == {"shapes@1": 4, UNKNOWN: 3}
    assert {name: each.requests for name, each in costs.pools.items()} == {"a": 5, UNKNOWN: 2}


def test_the_newest_record_of_an_hour_counts_at_the_price_it_had(costs: Costs) -> None:
    for record in (
        hour(NOON - HOUR, busy=3600),
        hour(NOON, busy=10, loading=20),
        hour(NOON, busy=30, loading=20, idle=3550),
        hour(NOON, consumer="d", idle=900),
        hour(NOON + HOUR, price=4.0, idle=900),
    ):
        costs.fold_uptime(record)
    (held,) = costs.held().values()
    assert held.consumers == 2
    assert dict(held.seconds) == {"busy": 30, "loading": 20, "idle": 3550 + 900 + 900}
    assert held.usd["idle"] == Decimal("1.972222") + Decimal("0.5") + Decimal("1")
    assert held.total_usd == held.usd["idle"] + Decimal("0.016667") + Decimal("0.011111")


def test_a_month_goes_as_the_part_that_is_known() -> None:
    costs = Costs(NOON, NOON + 30 * HOUR, NOON + 2 * HOUR)
    assert (costs.covered_hours, costs.projection(0)) == (0.0, None)
    assert (costs.held(), costs.tenants) == ({}, {})
    costs.fold_uptime(hour(NOON + HOUR, idle=3600))  # the deployment's first
    assert costs.projection(1.01) is None, "less than was asked for"
    projection = costs.projection(1)
    assert projection is not None
    assert (projection.covered_hours, projection.month_hours) == (1.0, 720)
    assert projection.of(Decimal("2.5")) == 1800
    assert str(projection) == "2026-11, if all its 720 hours go as the 1.00 covered here did"
    costs.fold_result(ended(-600))  # it is older than the period: all of that is covered
    projection = costs.projection(1)
    assert projection is not None
    assert projection.covered_hours == 2.0


def test_a_period_ends_after_it_begins() -> None:
    with pytest.raises(ValueError, match="later than --since"):
        Costs(NOON, NOON, NOON + HOUR)


def test_a_period_that_has_not_begun_says_so() -> None:
    with pytest.raises(ValueError, match="has not begun, it is 2026-11-10T12:00:00Z"):
        Costs(NOON, NOON, NOON)  # as without an --until


def test_an_end_alone_is_of_the_month_that_ends_there() -> None:
    november, december = datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC)
    assert [month_of(NOON), month_of(december), month_of(december + HOUR)] == [november, november, december]


def told(costs: Costs) -> str:
    """As `kiln cost` prints it, on one line."""
    console = Console(file=io.StringIO(), width=200)
    show(costs, Budgets(DeploymentSettings()), 1.0, console)
    return " ".join(console.file.getvalue().split())  # type: ignore[attr-defined]


def test_a_minute_makes_no_month() -> None:
    costs = Costs(NOON, NOON + HOUR, NOON + HOUR)
    costs.fold_result(ended(59, cost_usd=1.0))
    text = told(costs)
    assert "month: too little is covered here to make one of it, 1 minute; --hours-min" in text
    assert "1.000000" in text
    assert "720.00" not in text
    assert as_object(costs, Budgets(DeploymentSettings()), 1.0)["projection"] is None
    costs.fold_result(ended(-600))
    assert "720.00" in told(costs)


@pytest.mark.parametrize(("since", "until"), [(1, 2026), (2026, 9999), (1, 9999)])
def test_a_period_beyond_the_calendar_is_a_sentence(since: int, until: int) -> None:
    with pytest.raises(ValueError, match="the period leaves the years 1970 to 9998"):
        Costs(datetime(since, 1, 1, tzinfo=UTC), datetime(until, 12, 31, 23, 30, tzinfo=UTC), NOON)
