"""`kiln results` and `kiln watch`: how requests ended, so far and from now on."""

import sys
from collections.abc import Iterable
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.table import Column, Table

from schemas.codec import encode
from schemas.progress import ProgressEvent
from schemas.result import GenerationResult, Succeeded
from streams.client import PromptClient, read_results
from streams.commands.common import deployment, run

Tenant = Annotated[str | None, typer.Option(help="Of this tenant only.")]
AsJson = Annotated[bool, typer.Option("--json", help="One event a line, as it stands in the topic.")]


def results(
    tenant: Tenant = None,
    request_id: Annotated[str | None, typer.Option(help="Of this request only.")] = None,
    status: Annotated[
        Literal["succeeded", "failed", "rejected", "cancelled", "expired"] | None,
        typer.Option(help="Of these only."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="The newest so many.")] = 50,
    as_json: AsJson = False,
) -> None:
    """Show how requests ended: the newest of the results that are retained."""

    async def read() -> list[GenerationResult]:
        kafka, catalogue = deployment()
        found: list[GenerationResult] = []
        async for result in read_results(kafka, catalogue):
            if (
                tenant in (None, result.tenant)
                and request_id in (None, result.request_id)
                and status in (None, result.status)
            ):
                found.append(result)
            if len(found) >= 2 * limit:  # a week of results need not fit into memory
                found = _newest(found, limit)
        return _newest(found, limit)

    found = run(read())
    if as_json:
        for result in found:
            _print_json(result)
        return
    if not found:
        Console().print("No such result is retained; `kiln lag` shows what still waits.")
        return
    request, what = Column("request", overflow="fold"), Column("what", overflow="fold")
    table = Table("finished", "tenant", request, "status", "config", what)
    for result in found:
        table.add_row(
            f"{result.finished_at:%H:%M:%S}",
            result.tenant,
            result.request_id,
            result.status,
            _config(result),
            _what(result),
        )
    Console(markup=False).print(table)  # a request id may look like markup


def watch(
    tenant: Tenant = None,
    progress: Annotated[bool, typer.Option("--progress", help="Also how far those are that take a while.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show results as they come, until interrupted."""
    console = Console()

    async def follow() -> None:
        kafka, catalogue = deployment()
        async with PromptClient(kafka, catalogue, progress=progress) as client:
            while True:
                for event in await client.news():
                    if tenant not in (None, event.tenant):
                        continue
                    if as_json:
                        _print_json(event)
                    else:
                        console.print(_line(event), highlight=False, markup=False, soft_wrap=True)

    run(follow())


def _newest(results: Iterable[GenerationResult], limit: int) -> list[GenerationResult]:
    return sorted(results, key=lambda result: result.finished_at)[-limit:]


def _line(event: ProgressEvent | GenerationResult) -> str:
    name = f"{event.tenant}/{event.request_id}"
    if not isinstance(event, ProgressEvent):
        return f"{name} {event.status} {_config(event)} {_what(event)}"
    return f"{name} {event.state} {event.step} of {event.steps}" if event.state == "step" else f"{name} {event.state}"


def _print_json(event: ProgressEvent | GenerationResult) -> None:
    sys.stdout.write(encode(event).decode() + "\n")
    sys.stdout.flush()


def _config(result: GenerationResult) -> str:
    config = getattr(result, "config", None)
    return f"{config.name}@{config.version}" if config else ""


def _what(result: GenerationResult) -> str:
    if isinstance(result, Succeeded):
        return "\n".join(artifact.uri for artifact in result.artifacts)
    code = getattr(result, "code", None)
    return f"{code}: {result.message}" if code else result.message
