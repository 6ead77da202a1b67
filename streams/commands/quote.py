"""`kiln quote`: what a request would cost and how long it would wait, without sending it."""

import json
from typing import Annotated

import typer
from rich.console import Console

from streams.commands.common import run
from streams.commands.question import EXIT_REFUSED, answered, question
from streams.commands.wish import (
    Config,
    DeadlineSeconds,
    Images,
    Key,
    MayDegrade,
    Negative,
    Patience,
    Priority,
    Prompt,
    RequestId,
    TenantName,
)
from streams.quote import quote_of


def quote(
    prompt: Prompt,
    *,
    config: Config = "shapes",
    tenant: TenantName = "me",
    negative: Negative = "",
    key: Key = None,
    images: Images = 1,
    priority: Priority = "standard",
    deadline: DeadlineSeconds = None,
    may_degrade: MayDegrade = False,
    request_id: RequestId = None,
    timeout: Patience = 15.0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Say what a request would cost, how long it would wait, and whether it would enter; nothing is sent.

    Exit status: 0 it would enter, 1 an error, 3 it would be refused.
    """
    asked = question(
        prompt, config=config, tenant=tenant, negative=negative, key=key, images=images, priority=priority,
        deadline=deadline, may_degrade=may_degrade, request_id=request_id,
    )  # fmt: skip
    it = run(answered(asked, timeout))
    found = quote_of(it.answer, it.around.world, it.around.silent)
    if as_json:
        Console().print_json(json.dumps(found.json()))
    else:
        Console().print(str(found), highlight=False, markup=False, soft_wrap=True)
    if not found.enters:
        raise typer.Exit(EXIT_REFUSED)
