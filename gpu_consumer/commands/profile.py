"""`kiln profile`: a trace of a GPU consumer's next steps, to be opened in Perfetto or chrome://tracing."""

import urllib.error
import urllib.request
from pathlib import Path
from typing import Annotated

import typer

from schemas.counted import counted
from schemas.errors import CommandError, told

_WAIT_SECONDS = 600  # the consumer gives up before


def profile(
    url: Annotated[str, typer.Option(help="The health page of a GPU consumer.")] = "http://127.0.0.1:8082",
    steps: Annotated[int, typer.Option(min=1, help="Denoising steps to trace; it waits for them to be made.")] = 20,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write it.")] = Path("trace.json.gz"),
) -> None:
    """Trace the next steps of a running GPU consumer: every operator on the CPU, and every kernel on the card."""
    if not url.startswith(("http://", "https://")):
        raise CommandError(f"{url} is no address of a health page, such as http://127.0.0.1:8082")
    request = urllib.request.Request(f"{url.rstrip('/')}/profile?steps={steps}", method="POST")  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=_WAIT_SECONDS) as answer:  # noqa: S310 - http, as looked at above
            trace: bytes = answer.read()
    except urllib.error.HTTPError as error:
        raise CommandError(f"{url}: {error.read().decode(errors='replace').strip()}") from error
    except (urllib.error.URLError, OSError) as error:
        raise CommandError(
            f"{url} does not answer ({told(error)}); give the consumer's health page with --url"
        ) from error
    try:
        output.write_bytes(trace)
    except OSError as error:
        raise CommandError(f"{output} cannot be written: {told(error)}; name another file by --output") from error
    typer.echo(f"{output}: {counted(steps, 'step')}, {len(trace):,} bytes; open it at https://ui.perfetto.dev")
