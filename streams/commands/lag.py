"""`kiln lag`: what waits, by group and topic; what KEDA sees."""

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from schemas.request import LANES
from schemas.topics import Catalogue
from streams.commands.common import deployment, run
from streams.kafka.admin import require_topics
from streams.kafka.errors import LogUnavailable
from streams.kafka.lag import Offsets, group_lag, group_offsets
from streams.kafka.settings import KafkaSettings


def lag(as_json: Annotated[bool, typer.Option("--json", help="{group: {topic: lag}}.")] = False) -> None:
    """Show the lag of admission, of every pool, and of the gate where tenants have topics of their own."""
    found = run(_read())
    if as_json:
        Console().print_json(json.dumps(found))
        return
    table = Table("group", "topic", "lag")
    for group, topics in found.items():
        for topic, waiting in topics.items():
            table.add_row(group, topic, str(waiting))
    Console().print(table)


async def _read() -> dict[str, dict[str, int]]:
    kafka, catalogue = deployment(with_tenants=True)
    try:
        await require_topics(kafka, [topic for topics in _groups(catalogue).values() for topic in topics])
    except LogUnavailable as error:
        typer.echo(f"note: {error}; nothing can wait in it", err=True)  # the others may be looked at all the same
    return await all_lags(kafka, catalogue)


async def all_lags(kafka: KafkaSettings, catalogue: Catalogue) -> dict[str, dict[str, int]]:
    """Group -> topic -> records not committed yet, in flight included."""
    return {group: await group_lag(kafka, group, topics) for group, topics in _groups(catalogue).items()}


async def all_offsets(kafka: KafkaSettings, catalogue: Catalogue) -> dict[str, dict[str, list[Offsets]]]:
    """Group -> topic -> the offsets of its partitions."""
    return {group: await group_offsets(kafka, group, topics) for group, topics in _groups(catalogue).items()}


def _groups(catalogue: Catalogue) -> dict[str, list[str]]:
    """Every group of the deployment, and the topics that it takes from."""
    groups = {catalogue.admission_group: [catalogue.requests]} | {
        catalogue.gpu_group(pool): [catalogue.work(pool, lane) for lane in LANES] for pool in catalogue.pools
    }
    if catalogue.own_topics:
        groups[catalogue.gate_group] = [catalogue.tenant_requests(tenant) for tenant in catalogue.own_topics]
    return groups
