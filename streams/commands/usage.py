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
    heads = ("tenant", "key", "accepted", "rejected", *_STATUSES, "given up", "outstanding", "GPU-seconds")
    table = Table(*(Column(head, overflow="fold") for head in heads))
    for each in found:
        # Cancelled at the door or later: it is the same end to whoever sent it.
        ended = each.ended + Counter(cancelled=each.cancelled)
        numbers = (each.accepted, each.rejected, *(ended[status] for status in _STATUSES), each.dropped)
        table.add_row(each.tenant, each.key or "", *map(str, numbers), str(each.outstanding), f"{each.gpu_seconds:.3f}")
    Console(markup=False).print(table)


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
