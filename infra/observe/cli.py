"""`kiln metrics`: what every service exposes."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from infra.observe.metrics import METRICS, page
from schemas.errors import CommandError

PAGE = Path("docs/metrics.md")


def metrics(
    write: Annotated[bool, typer.Option("--write", help=f"Write {PAGE} instead of printing it.")] = False,
    check: Annotated[bool, typer.Option("--check", help=f"Exit 1 where {PAGE} differs from the code.")] = False,
) -> None:
    """Print every metric of every service, as Markdown."""
    wanted = page()
    if not (write or check):
        typer.echo(wanted, nl=False)
        return
    try:
        if check and PAGE.read_text(encoding="utf-8") != wanted:
            raise CommandError(f"{PAGE} differs from the code; run kiln metrics --write")
        if write:
            PAGE.write_text(wanted, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{PAGE}: {error}") from error
    Console().print(f"{len(METRICS)} metrics in {PAGE}")
