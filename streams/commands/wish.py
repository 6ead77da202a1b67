"""A request as the command line says it."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from schemas.errors import CommandError
from schemas.request import GenerationRequest, Lane, first_problem

Prompt = Annotated[str, typer.Argument(help="What to draw.")]
Config = Annotated[str, typer.Option(help="Configuration, as NAME, NAME@VERSION or NAME:CHANNEL.")]
TenantName = Annotated[str, typer.Option(help="Who pays.")]
Negative = Annotated[str, typer.Option(help="What not to draw.")]
Key = Annotated[str | None, typer.Option(help="Which key of the tenant asks, for its quota.")]
Images = Annotated[int, typer.Option(min=1, help="How many pictures.")]
Priority = Annotated[Lane, typer.Option(help="Which lane it waits in.")]
DeadlineSeconds = Annotated[float | None, typer.Option(min=0, help="Seconds from now after which it is worth nothing.")]
MayDegrade = Annotated[
    bool, typer.Option("--may-degrade", help="Under overload take the configuration's cheaper sibling.")
]
RequestId = Annotated[
    str | None,
    typer.Option(
        help="A channel with several versions chooses by it, and so does a configuration with several partitions; "
        "absent, one is made."
    ),
]
Patience = Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds to wait for what must be read.")]


def from_now(seconds: float) -> str:
    """The moment so many seconds ahead, as requests say it."""
    try:
        return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()
    except (OverflowError, ValueError) as error:
        raise CommandError(f"a deadline {seconds:g} s from now has no date; send one that has, or none", 2) from error


def checked(body: dict[str, Any], where: str) -> GenerationRequest:
    """Raises CommandError with the first thing wrong in it."""
    try:
        return GenerationRequest.model_validate(body)
    except ValidationError as error:
        raise CommandError(f"{where}: {first_problem(error)[1]}") from error
