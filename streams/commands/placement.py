"""`kiln placement`: which configurations stand where in a pool, and a way to have them laid out anew."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Annotated, NamedTuple

import typer
from rich.console import Console
from rich.table import Column, Table

from schemas.catalogue import ConfigCatalogue
from schemas.control import Placement, control_key
from schemas.errors import CommandError
from streams.commands.common import deployment, run
from streams.commands.declared import Declared
from streams.commands.subject import known
from streams.control_log import say

_HASH_SHOWN = 12


class Place(NamedTuple):
    """A partition. `models` are keys; `configs` are labels, or hashes of what is not declared, with the part of each
    one's work that goes there."""

    partition: int
    models: list[str]
    configs: dict[str, float]


def placement(
    pool: Annotated[str, typer.Argument(help="Of which pool.")] = "default",
    undo: Annotated[bool, typer.Option("--undo", help="Take the table back: the next one is laid out anew.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Show which configurations have their place where, as admission's placement controller said last."""
    kafka, catalogue = deployment()
    known("pool", pool, catalogue)
    if undo:
        run(say(kafka, catalogue, [(control_key("placement", pool), None)]))
        typer.echo(f"pool {pool!r} has no placement; until the next one each configuration's hash says where it goes")
        return
    declared = Declared.of(None)
    controls = declared.controls(declared.hashes)
    table = controls.placements.get(pool)
    if table is None:
        raise CommandError(f"control has no placement of pool {pool!r}; admission makes one of what is asked for")
    found = list(places(table, declared.with_control(controls).configs))
    if as_json:
        typer.echo(json.dumps({"pool": pool, "term": table.term, "places": [each._asdict() for each in found]}))
    else:
        Console(markup=False).print(_table(pool, table, found))


def places(table: Placement, catalogue: ConfigCatalogue) -> Iterator[Place]:
    """Every partition that the table is made for."""
    labels: dict[str, list[str]] = defaultdict(list)
    for label, digest in sorted(catalogue.hashes().items()):
        labels[digest].append(label)
    configs: dict[int, dict[str, float]] = defaultdict(dict)
    for digest, shares in table.configs.items():
        name, whole = " = ".join(labels.get(digest, [digest[:_HASH_SHOWN]])), sum(share.weight for share in shares)
        for share in shares:
            configs[share.partition][name] = round(share.weight / whole, 4)
    for number in range(table.partitions):
        models = [key for key, shares in table.models.items() if any(share.partition == number for share in shares)]
        yield Place(number, sorted(models), dict(sorted(configs[number].items())))


def _table(pool: str, table: Placement, found: list[Place]) -> Table:
    shown = Table(
        "partition",
        Column("models", overflow="fold"),
        Column("configurations", overflow="fold"),
        title=f"pool {pool}, term {table.term}",
    )
    for each in found:
        shown.add_row(str(each.partition), "\n".join(each.models), ", ".join(_in_words(each.configs)))
    return shown


def _in_words(configs: Mapping[str, float]) -> Iterator[str]:
    for name, part in configs.items():
        yield name if part == 1 else f"{name} ({100 * part:.3g} %)"
