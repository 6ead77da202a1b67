"""`kiln controls`: what operators and the placement controller have said, and what of it is in force."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, NamedTuple

import typer
from rich.console import Console
from rich.table import Column, Table

from schemas.config_file import ConfigFile
from schemas.counted import counted
from schemas.stops import ends_ms
from streams.commands.declared import Declared
from streams.control import Controls


class Row(NamedTuple):
    what: str
    subject: str
    said: str
    reason: str = ""


def controls(
    as_json: Annotated[bool, typer.Option("--json", help="A list of what, subject, said and reason.")] = False,
) -> None:
    """Show what control says: pauses, drops, configurations, channels, quotas and placements."""
    declared = Declared.of(None)
    found = list(rows(declared.controls(declared.hashes), datetime.now(UTC)))
    if as_json:
        typer.echo(json.dumps([row._asdict() for row in found]))
        return
    if not found:
        typer.echo("control says nothing; all is as the files have it")
        return
    table = Table("what", Column("about", overflow="fold"), Column("said", overflow="fold"), "reason")
    for row in found:
        table.add_row(*row)
    Console(markup=False).print(table)


def rows(controls: Controls, now: datetime) -> Iterator[Row]:
    """One a subject; a pause that is over at `now` is marked so."""
    now_ms = now.timestamp() * 1000
    for subject, pause in controls.paused.items():
        until = "until it is resumed" if pause.until is None else f"until {_at(pause.until)}"
        over = "" if ends_ms(pause) > now_ms else ", which is over"
        yield Row("pause", str(subject), until + over, pause.reason)
    for subject, drop in controls.dropped.items():
        at = datetime.fromtimestamp(drop.at_ms / 1000, UTC)
        yield Row("drop", str(subject), f"what was sent until {_at(at)}", drop.reason)
    for (name, channel), split in controls.channels.items():
        versions = ", ".join(f"{version}={weight:g}" for version, weight in split.versions.items())
        yield Row("channel", f"{name}:{channel}", versions, split.reason)
    for label, retire in sorted(controls.retired.items()):
        yield Row("retire", label, "refused", retire.reason)
    for name, published in controls.published.items():
        yield Row("config", name, _versions(published.file), published.reason)
    for tenant, allowed in controls.allowed.items():
        quota = allowed.quota
        yield Row("tenant", tenant, f"{quota.per_second:g} a second, {quota.burst:g} at once", allowed.reason)
    for pool, placement in controls.placements.items():
        models = counted(len(placement.models), "model")
        yield Row("placement", pool, f"{models}, term {placement.term}", placement.reason)


def _versions(file: ConfigFile) -> str:
    return f"version{'s' if len(file.versions) > 1 else ''} {', '.join(map(str, sorted(file.versions)))}"


def _at(time: datetime) -> str:
    return f"{time.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
