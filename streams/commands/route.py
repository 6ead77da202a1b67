"""`kiln route`: where a request would go and why, and who has that partition now, without sending it."""

import json
from typing import Annotated

import typer
from rich.console import Console

from schemas.request import GenerationRequest
from streams.cluster import Cluster
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
from streams.destination import Destination, destination_of


def route(
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
    """Explain where a request would go: version, pool, lane, partition, and the consumer that has it; nothing is sent.

    Exit status: 0 it would enter, 1 an error, 3 it would be refused.
    """
    asked = question(
        prompt, config=config, tenant=tenant, negative=negative, key=key, images=images, priority=priority,
        deadline=deadline, may_degrade=may_degrade, request_id=request_id,
    )  # fmt: skip
    found = run(_route(asked, timeout))
    if as_json:
        Console().print_json(json.dumps(found.json()))
    else:
        Console().print(str(found), highlight=False, markup=False, soft_wrap=True)
    if not found.enters:
        raise typer.Exit(EXIT_REFUSED)


async def _route(request: GenerationRequest, timeout: float) -> Destination:
    it = await answered(request, timeout)
    world = it.around.world
    found = destination_of(request.config, it.answer, it.around.state, world, it.around.silent)
    if found.pool is None or found.topic is None:
        return found
    group = world.catalogue.gpu_group(found.pool)
    async with Cluster(it.kafka, world.catalogue) as cluster:
        return found.had_by((await cluster.members([group]))[group])
