"""`kiln usage`: what each tenant, and each key of it, had decided, ended and used."""

import json
from collections import Counter
from typing import Annotated, Any

import typer
from pydantic import ValidationError
from rich.console import Console
from rich.table import Column, Table

from schemas.errors import CommandError
from streams.commands.common import deployment, run
from streams.usage import Usage, read_usage

_STATUSES = ("succeeded", "failed", "expired", "cancelled")
_NUMBERS = ("accepted", "rejected", "outstanding", "GPU-seconds")


def usage(
    tenant: Annotated[str | None, typer.Option(help="Of this tenant only, with its keys.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="A list, an object a tenant or key.")] = False,
) -> None:
    """Show what tenants used since the deployment began; a tenant's line counts all its keys."""

    async def read() -> list[Usage]:
        try:
            return await read_usage(*deployment())
        except ValidationError as error:
            raise CommandError("an account cannot be read; a newer admission wrote it: upgrade this command") from error

    found = [each for each in run(read()) if tenant in (None, each.tenant)]
    if as_json:
        Console().print_json(json.dumps([_as_object(each) for each in found]))
        return
    if not found:
        Console().print("Nothing was decided for such a tenant yet; `kiln lag` shows what still waits.")
        return
    table = Table(Column("tenant", overflow="fold"), Column("key", overflow="fold"), *map(_number, _NUMBERS), "ended")
    for each in found:
        # Cancelled at the door or later: it is the same end to whoever sent it.
        ended = each.ended + Counter(cancelled=each.cancelled)
        ends = [*((ended[status], status) for status in _STATUSES), (each.dropped, "given up")]
        numbers = (str(each.accepted), str(each.rejected), str(each.outstanding), f"{each.gpu_seconds:.3f}")
        said = "\n".join(f"{count} {end}" for count, end in ends if count)
        table.add_row(each.tenant, each.key or "", *numbers, said)
    Console(markup=False).print(table)


def _number(head: str) -> Column:
    return Column(head, justify="right", overflow="fold")


def _as_object(usage: Usage) -> dict[str, Any]:
    return {
        "tenant": usage.tenant,
        "key": usage.key,
        "accepted": usage.accepted,
        "rejected": usage.rejected,
        "cancelled_at_the_door": usage.cancelled,
        "finished": usage.finished,
        "ended": dict(sorted(usage.ended.items())),
        "given_up": usage.dropped,
        "outstanding": usage.outstanding,
        "gpu_seconds": usage.gpu_seconds,
    }
