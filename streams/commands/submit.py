"""`kiln submit`: ask for pictures, one prompt or JSON lines, and if wished wait for them and save them."""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated
from uuid import uuid4

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from schemas.codec import decode_object
from schemas.errors import CommandError, Undecodable, told
from schemas.reference import config_ref
from schemas.request import GenerationRequest
from schemas.result import GenerationResult, Succeeded
from schemas.signature import SigningKey
from streams.artifacts import save
from streams.client import PromptClient
from streams.commands.common import deployment, run
from streams.commands.speaking import OwnTopic, Sign, signing_key
from streams.commands.wish import (
    Config,
    DeadlineSeconds,
    Images,
    Key,
    MayDegrade,
    Negative,
    Priority,
    TenantName,
    checked,
    from_now,
)

EXIT_NOT_ALL_SUCCEEDED = 3


def submit(
    prompt: Annotated[str | None, typer.Argument(help="What to draw.")] = None,
    *,
    config: Config = "shapes",
    tenant: TenantName = "me",
    key: Key = None,
    negative: Negative = "",
    seed: Annotated[int | None, typer.Option(help="Absent, a random one is taken.")] = None,
    images: Images = 1,
    priority: Priority = "standard",
    deadline: DeadlineSeconds = None,
    may_degrade: MayDegrade = False,
    request_id: Annotated[str | None, typer.Option(help="Absent, one is made.")] = None,
    retry_of: Annotated[str | None, typer.Option(help="The request this one tries again.")] = None,
    lines: Annotated[
        str | None, typer.Option("--json-lines", help="A file of requests, one JSON a line; - reads stdin.")
    ] = None,
    sign: Sign = None,
    own_topic: OwnTopic = False,
    wait: Annotated[bool, typer.Option(help="Wait until every request has ended.")] = False,
    folder: Annotated[Path | None, typer.Option("--save", help="Wait, and save the pictures here.")] = None,
    timeout: Annotated[float, typer.Option(min=0, help="Seconds to wait at most.")] = 300.0,
) -> None:
    """Ask for pictures of a prompt, or of each in --json-lines FILE.

    Exit status: 0 published (waiting: all succeeded), 1 an error, 3 some did not succeed.
    """
    if (prompt is None) == (lines is None):
        raise CommandError("give a prompt, or requests by --json-lines FILE", 2)
    if lines is not None:
        requests = list(_from_lines(_read(lines).split(b"\n"), tenant))
    else:
        until = None if deadline is None else from_now(deadline)
        body = {
            "request_id": request_id or str(uuid4()), "tenant": tenant, "key": key, "prompt": prompt,
            "negative_prompt": negative, "config": config_ref(config).model_dump(exclude_none=True), "seed": seed,
            "images": images, "priority": priority, "deadline": until, "may_degrade": may_degrade,
            "retry_of": retry_of,
        }  # fmt: skip
        requests = [checked(body, "the request")]
    if folder is not None:
        _prepare(folder)
    signing = signing_key(sign)
    run(_submit(requests, signing, own_topic, wait=wait or folder is not None, folder=folder, timeout=timeout))


def _read(path: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {told(error)}; name a file of requests, or - for stdin") from error


def _prepare(folder: Path) -> None:
    """Before anything is asked for: the pictures would have nowhere to go."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(f"{folder} is no folder to save in: {told(error)}; name another") from error


def _from_lines(lines: Iterable[bytes], tenant: str) -> Iterable[GenerationRequest]:
    """The requests of JSON lines; an absent id or tenant is filled in. All are checked before any is sent."""
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                body = decode_object(line)
            except Undecodable as error:
                raise CommandError(f"line {number}: {error}") from error
            yield checked({"request_id": str(uuid4()), "tenant": tenant, **body}, f"line {number}")


async def _submit(
    requests: list[GenerationRequest],
    signing: SigningKey | None,
    own_topics: bool,
    *,
    wait: bool,
    folder: Path | None,
    timeout: float,
) -> None:
    kafka, catalogue = deployment()
    console = Console()
    results: list[GenerationResult] = []
    async with PromptClient(kafka, catalogue, signing=signing, own_topics=own_topics, results=wait) as client:
        await client.submit(requests)
        if not wait:
            for request in requests:
                console.print_json(json.dumps({"tenant": request.tenant, "request_id": request.request_id}))
            return
        names = {(request.tenant, request.request_id) for request in requests}
        bar = Progress(
            TextColumn("drawing"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=Console(stderr=True)
        )
        with bar:
            task = bar.add_task("", total=len(names))
            async for result in client.follow(names, timeout):
                results.append(result)
                bar.advance(task)
    for result in results:
        console.print(_line(result), highlight=False, markup=False, soft_wrap=True)
        if folder is not None and isinstance(result, Succeeded):
            for number, artifact in enumerate(result.artifacts):
                path = save(artifact, folder, f"{result.job_id}-{number}")
                console.print(f"  {path}", highlight=False, markup=False, soft_wrap=True)
    if len(results) < len(names):
        raise CommandError(
            f"not ended after {timeout:.0f} s: {len(names) - len(results)} of {len(names)}; look with "
            "`kiln results`, where an id that was sent before has ended already, at `kiln lag` for what waits, and in "
            "topic dead-letters, whose headers say why, for what could not be read or proven"
        )
    if not all(isinstance(result, Succeeded) for result in results):
        raise CommandError("not every request succeeded; each says above what to do", EXIT_NOT_ALL_SUCCEEDED)


def _line(result: GenerationResult) -> str:
    name = f"{result.tenant}/{result.request_id}"
    if isinstance(result, Succeeded):
        config = f"{result.config.name}@{result.config.version}"
        instead = f" instead of {result.degraded_from}" if result.degraded_from else ""
        return f"{name} succeeded: pictures {len(result.artifacts)}, seed {result.seed}, config {config}{instead}"
    return f"{name} {result.status}: {result.message}"
