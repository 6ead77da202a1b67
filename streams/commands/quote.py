"""`kiln quote`: what a request would cost and how long it would wait, without sending it."""

import json
import time
from typing import Annotated
from uuid import uuid4

import typer
from rich.console import Console

from admission.errors import AdmissionError
from admission.question import ask
from schemas.errors import CatalogueError, CommandError
from schemas.reference import config_ref
from schemas.request import GenerationRequest, Lane
from schemas.settings import read_settings
from streams.asking import present
from streams.commands.common import run
from streams.commands.wish import checked, from_now
from streams.declared import declare
from streams.kafka.errors import StreamError
from streams.kafka.settings import KafkaSettings
from streams.quote import Quote, quote_of
from streams.settings import AdmissionServiceSettings

EXIT_REFUSED = 3


def quote(
    prompt: Annotated[str, typer.Argument(help="What to draw.")],
    *,
    config: Annotated[str, typer.Option(help="Configuration, as NAME, NAME@VERSION or NAME:CHANNEL.")] = "shapes",
    tenant: Annotated[str, typer.Option(help="Who pays.")] = "me",
    negative: Annotated[str, typer.Option(help="What not to draw.")] = "",
    key: Annotated[str | None, typer.Option(help="Which key of the tenant asks.")] = None,
    images: Annotated[int, typer.Option(min=1, help="How many pictures.")] = 1,
    priority: Annotated[Lane, typer.Option(help="Which lane it waits in.")] = "standard",
    deadline: Annotated[
        float | None, typer.Option(min=0, help="Seconds from now after which it is worth nothing.")
    ] = None,
    may_degrade: Annotated[
        bool, typer.Option("--may-degrade", help="Under overload take the configuration's cheaper sibling.")
    ] = False,
    request_id: Annotated[
        str | None, typer.Option(help="A channel with several versions chooses by it; absent, one is made.")
    ] = None,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds to wait for what must be read.")] = 15.0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Say what a request would cost, how long it would wait, and whether it would enter; nothing is sent.

    Exit status: 0 it would enter, 1 an error, 3 it would be refused.
    """
    body = {
        "request_id": request_id or str(uuid4()), "tenant": tenant, "key": key, "prompt": prompt,
        "negative_prompt": negative,
        "config": config_ref(config).model_dump(exclude_none=True), "images": images, "priority": priority,
        "deadline": None if deadline is None else from_now(deadline), "may_degrade": may_degrade,
    }  # fmt: skip
    found = run(_quote(checked(body, "the request"), timeout))
    if as_json:
        Console().print_json(json.dumps(found.json()))
    else:
        Console().print(str(found), highlight=False, markup=False, soft_wrap=True)
    if not found.enters:
        raise typer.Exit(EXIT_REFUSED)


async def _quote(request: GenerationRequest, timeout: float) -> Quote:
    settings = read_settings(AdmissionServiceSettings)
    try:
        kafka, declared = KafkaSettings.load(), declare(settings.tokenizers)
        around = await present(kafka, declared, settings, request.tenant, timeout)
    except (AdmissionError, CatalogueError, StreamError, ValueError) as error:
        raise CommandError(str(error)) from error
    answer = ask(request, around.state, around.world, time.time_ns() // 1_000_000)
    return quote_of(answer, around.world, around.silent)
