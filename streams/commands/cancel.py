"""`kiln cancel`: take requests back, for their tenant or as an operator."""

import asyncio
from collections.abc import Sequence
from typing import Annotated

import typer
from pydantic import ValidationError
from rich.console import Console

from schemas.cancel import Cancel, CancelRequest
from schemas.codec import encode
from schemas.counted import counted
from schemas.errors import CommandError
from schemas.names import request_name
from schemas.request import first_problem
from schemas.result import Cancelled, GenerationResult
from schemas.signature import SigningKey
from schemas.topics import Catalogue
from streams.client import PromptClient
from streams.commands.common import deployment, run
from streams.commands.speaking import OwnTopic, Sign, signing_key
from streams.kafka.admin import require_topics
from streams.kafka.clients import idempotent_producer, stop_client
from streams.kafka.settings import KafkaSettings

EXIT_NOT_ALL_CANCELLED = 3


def cancel(
    requests: Annotated[list[str], typer.Argument(metavar="TENANT/REQUEST_ID...", show_default=False)],
    *,
    sign: Sign = None,
    own_topic: OwnTopic = False,
    operator: Annotated[
        bool, typer.Option("--operator", help="Whosoever they are, past admission: who runs this may write to cancels.")
    ] = False,
    wait: Annotated[bool, typer.Option(help="Wait until every one of them has ended.")] = False,
    timeout: Annotated[float, typer.Option(min=0, help="Seconds to wait at most.")] = 60.0,
) -> None:
    """End requests that were sent before, also while they run. What has ended stays as it ended.

    It goes the way the request went, so who may send a tenant's requests may cancel them. Exit status: 0 asked
    (waiting: all are cancelled), 1 an error, 3 some ended otherwise.
    """
    names = list(dict.fromkeys(_name(each) for each in requests))
    if operator and (sign is not None or own_topic):
        raise CommandError("an operator writes to cancels, unsigned; leave out --sign and --own-topic", 2)
    run(_cancel(names, signing_key(sign), own_topic, operator=operator, wait_seconds=timeout if wait else None))


def _name(text: str) -> tuple[str, str]:
    tenant, slash, request_id = text.partition("/")
    if not slash:
        raise CommandError(f"{text!r} names a tenant and no request; write TENANT/REQUEST_ID", 2)
    try:
        asked = CancelRequest(tenant=tenant, request_id=request_id, cancel=True)
    except ValidationError as error:
        raise CommandError(f"{text!r} is no TENANT/REQUEST_ID: {first_problem(error)[1]}", 2) from error
    return asked.tenant, asked.request_id


async def _cancel(
    names: Sequence[tuple[str, str]],
    signing: SigningKey | None,
    own_topics: bool,
    *,
    operator: bool,
    wait_seconds: float | None,
) -> None:
    kafka, catalogue = deployment()
    waits = wait_seconds is not None
    async with PromptClient(kafka, catalogue, signing=signing, own_topics=own_topics, results=waits) as client:
        if operator:
            await _write(kafka, catalogue, names)
        else:
            await client.cancel(names)
        if wait_seconds is None:
            typer.echo(f"asked for the end of {counted(len(names), 'request')}; `kiln results` shows how each ended")
            return
        ended = [result async for result in client.follow(names, wait_seconds)]
    _tell(ended, names, wait_seconds)


async def _write(kafka: KafkaSettings, catalogue: Catalogue, names: Sequence[tuple[str, str]]) -> None:
    await require_topics(kafka, [catalogue.cancels])
    producer = idempotent_producer(kafka)
    value = encode(Cancel(by="operator"))
    try:
        await producer.start()
        sent = [await producer.send(catalogue.cancels, value, key=request_name(*name), partition=0) for name in names]
        await asyncio.gather(*sent)
    finally:
        await stop_client(producer, kafka.close_timeout_ms / 1000)


def _tell(ended: Sequence[GenerationResult], names: Sequence[tuple[str, str]], seconds: float) -> None:
    for result in ended:
        said = f": {result.message}" if isinstance(result, Cancelled) else ""
        line = f"{result.tenant}/{result.request_id} {result.status}{said}"
        Console().print(line, highlight=False, markup=False, soft_wrap=True)
    if len(ended) < len(names):
        raise CommandError(
            f"not ended within {seconds:.0f} s: {len(names) - len(ended)} of {len(names)}; look with "
            "`kiln results`, where one that had ended before is, and at `kiln lag` for what waits"
        )
    if not all(isinstance(result, Cancelled) for result in ended):
        raise CommandError("some ended otherwise before the cancel reached them", EXIT_NOT_ALL_CANCELLED)
