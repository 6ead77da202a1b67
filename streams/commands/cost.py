"""`kiln cost`: GPU-seconds and money of a period, by tenant, config and pool; idle cost; the month, projected."""

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any

import typer
from aiokafka import TopicPartition
from pydantic import ValidationError
from rich.console import Console
from rich.table import Column, Table

from schemas.counted import counted
from schemas.deployment import DeploymentSettings
from schemas.errors import CatalogueError, CommandError, Undecodable
from schemas.result import parse_result
from schemas.topics import Catalogue
from schemas.uptime import STATES, decode_uptime
from streams.client import result_partitions
from streams.commands.common import deployment, run
from streams.cost import Charged, Costs, Held, Projection
from streams.kafka.admin import require_topics
from streams.kafka.bisect import first_needed
from streams.kafka.log import Record, read_log
from streams.kafka.settings import KafkaSettings

# Records of a partition lie in the order in which they were written, which after a take-over is not quite that of the
# ends they tell.
_SLACK = timedelta(hours=1)
_UPTIME_SLACK = timedelta(hours=3)

_FORMATS = ("%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%SZ")
Since = Annotated[
    datetime | None, typer.Option(formats=_FORMATS, help="UTC, a full hour.", show_default="the month's beginning")
]
Until = Annotated[datetime | None, typer.Option(formats=_FORMATS, help="UTC, before it.", show_default="now")]
HoursMin = Annotated[
    float, typer.Option(min=0, help="Hours of the period that something must be known of before it makes a month.")
]


def cost(
    since: Since = None,
    until: Until = None,
    hours_min: HoursMin = 1.0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Show what requests cost, what consumers cost while they were idle, and where the month goes.

    Requests come from the results that are retained, consumers from what they tell of their hours.
    """
    now = datetime.now(UTC)
    end = now if until is None else until.replace(tzinfo=UTC)
    begin = month_of(end) if since is None else since
    try:
        costs = Costs(begin.replace(tzinfo=UTC), end, now)
    except ValueError as error:
        raise CommandError(str(error)) from error
    try:
        budgets = Budgets(DeploymentSettings())
    except CatalogueError as error:
        raise CommandError(str(error)) from error
    run(read_costs(*deployment(), costs))
    if as_json:
        Console().print_json(json.dumps(as_object(costs, budgets, hours_min)))
    else:
        show(costs, budgets, hours_min, Console(markup=False, highlight=False))


def month_of(end: datetime) -> datetime:
    """The beginning of the month that ends then, or has come so far."""
    return (end - timedelta(microseconds=1)).replace(day=1, hour=0, minute=0, second=0, microsecond=0)


class Budgets:
    """A month's, as the files declare them."""

    def __init__(self, declared: DeploymentSettings) -> None:
        """Raises CatalogueError where a file cannot be read."""
        self.pools = {
            name: pool.budget_usd_per_month
            for name, pool in declared.load_pools().pools.items()
            if pool.budget_usd_per_month is not None
        }
        tenants = declared.load_tenants().tenants if declared.tenants.exists() else {}
        self.tenants = {
            name: quota.budget_usd_per_month
            for name, quota in tenants.items()
            if quota.budget_usd_per_month is not None
        }


async def read_costs(kafka: KafkaSettings, catalogue: Catalogue, costs: Costs) -> None:
    """Fold what is committed now. Raises StreamError, KafkaError."""
    await require_topics(kafka, [catalogue.results, catalogue.uptime])

    def result(record: Record) -> None:
        costs.fold_result(parse_result(record.value or b""))

    def hour(record: Record) -> None:
        costs.fold_uptime(decode_uptime(record.value or b""))

    sources = (
        (result_partitions(catalogue), result, costs.since - _SLACK),
        ([TopicPartition(catalogue.uptime, 0)], hour, costs.since - _UPTIME_SLACK),
    )
    for partitions, fold, since in sources:
        since_ms = since.timestamp() * 1000
        start = {
            each: await first_needed(kafka, each, lambda record, ms=since_ms: record.timestamp < ms)  # type: ignore[misc]
            for each in partitions
        }
        async with aclosing(read_log(kafka, partitions, start=start)) as records:
            async for record in records:
                try:
                    fold(record)
                except (ValidationError, Undecodable):
                    continue  # another than us wrote it: it is nobody's


def as_object(costs: Costs, budgets: Budgets, hours_min: float) -> dict[str, Any]:
    """Money in USD; each request is rounded to a millionth, half to even, and sums are sums of these."""
    projection, held = costs.projection(hours_min), costs.held()
    return {
        "since": costs.since.isoformat(),
        "until": costs.until.isoformat(),
        "covered_hours": round(costs.covered_hours, 4),
        "projection": None
        if projection is None
        else {
            "month": projection.month,
            "month_hours": projection.month_hours,
            "assumption": str(projection),
        },
        "tenants": _objects("tenant", costs.tenants, projection, budgets.tenants),
        "configs": _objects("config", costs.configs, projection, {}),
        "pools": [
            {"pool": name} | _of_pool(costs.pools.get(name, Charged()), held.get(name, Held()), projection)
            | ({"budget_usd_per_month": budgets.pools[name]} if name in budgets.pools else {})
            for name in sorted(costs.pools.keys() | held.keys())
        ],
    }  # fmt: skip


def _objects(
    what: str, sums: Mapping[str, Charged], projection: Projection | None, budgets: Mapping[str, float]
) -> list[dict[str, Any]]:
    return [
        {what: name} | _charged(each)
        | ({} if projection is None else {"projected_usd": float(projection.of(each.usd))})
        | ({"budget_usd_per_month": budgets[name]} if name in budgets else {})
        for name, each in sorted(sums.items())
    ]  # fmt: skip


def _charged(each: Charged) -> dict[str, Any]:
    found: dict[str, Any] = {"requests": each.requests, "gpu_seconds": round(each.gpu_seconds, 3)}
    found["usd"] = float(each.usd)
    return found | ({"unpriced_requests": each.unpriced} if each.unpriced else {})


def _of_pool(charged: Charged, held: Held, projection: Projection | None) -> dict[str, Any]:
    found = _charged(charged) | {
        "consumers": held.consumers,
        "held_seconds": {state: round(held.seconds[state], 3) for state in STATES},
        "held_usd": {state: float(held.usd[state]) for state in STATES},
        "total_usd": float(held.total_usd),
        "uncharged_usd": float(held.total_usd - charged.usd),
    }
    return found | ({} if projection is None else {"projected_usd": float(projection.of(held.total_usd))})


def show(costs: Costs, budgets: Budgets, hours_min: float, console: Console) -> None:
    """As tables, for people."""
    projection, held = costs.projection(hours_min), costs.held()
    console.print(f"from {costs.since:%Y-%m-%d %H:%M} until {costs.until:%Y-%m-%d %H:%M} UTC, in USD")
    if not costs.covered_hours:
        console.print("Nothing is retained of this period; `kiln usage` counts since the deployment began.")
        return
    for what, sums, of_a_month in (("tenant", costs.tenants, budgets.tenants), ("config", costs.configs, {})):
        table = _table(what, "requests", "GPU-seconds", "charged", "month", "budget")
        for name, each in sorted(sums.items()):
            budget = f"{of_a_month[name]:.2f}" if name in of_a_month else ""
            month = _of_month(projection, each.usd)
            table.add_row(name, str(each.requests), f"{each.gpu_seconds:.3f}", str(each.usd), month, budget)
        console.print(table)
    for table in _pools(costs, held, projection, budgets):
        console.print(table)
    console.print(f"month: {projection or _too_little(costs.covered_hours)}.")
    if unpriced := sum(each.unpriced for each in costs.tenants.values()):
        console.print(f"{counted(unpriced, 'request')} used GPUs under an earlier release, which told no cost.")


def _too_little(hours: float) -> str:
    minutes = counted(math.ceil(hours * 60), "minute")
    return f"too little is covered here to make one of it, {minutes}; --hours-min asks for more"


def _of_month(projection: Projection | None, usd: Decimal) -> str:
    return "" if projection is None else f"{projection.of(usd):.2f}"


def _pools(costs: Costs, held: Mapping[str, Held], projection: Projection | None, budgets: Budgets) -> Iterator[Table]:
    """What requests were charged in each pool; what its consumers cost."""
    names = sorted(costs.pools.keys() | held.keys())
    table = _table("pool", "requests", "GPU-seconds", "charged")
    for name in names:
        charged = costs.pools.get(name, Charged())
        table.add_row(name, str(charged.requests), f"{charged.gpu_seconds:.3f}", str(charged.usd))
    yield table
    table = _table("pool", *STATES, "paid", "month", "budget")
    for name in names:
        there = held.get(name, Held())
        states = [f"{there.usd[state]}\n{there.seconds[state]:.0f} s" for state in STATES]
        budget = f"{budgets.pools[name]:.2f}" if name in budgets.pools else ""
        table.add_row(name, *states, str(there.total_usd), _of_month(projection, there.total_usd), budget)
    yield table


def _table(what: str, *numbers: str) -> Table:
    return Table(Column(what, overflow="fold"), *(Column(each, justify="right", overflow="fold") for each in numbers))
