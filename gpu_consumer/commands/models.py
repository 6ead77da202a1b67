"""kiln models: write the tiny ones, and say or check what a folder holds."""

from pathlib import Path
from typing import Annotated

import typer

from gpu_consumer.models.digests import ModelUnavailable, model_digest, verify

app = typer.Typer(help="Model folders: make the tiny ones, name and verify their content.", no_args_is_help=True)

Directory = Annotated[
    Path, typer.Argument(help="The models directory; created if it is not there.", show_default=False)
]
Digest = Annotated[str, typer.Option("--digest", help="sha256: and 64 hex digits.", show_default=False)]
Folder = Annotated[Path, typer.Argument(help="A folder as save_pretrained writes it.", show_default=False)]


def _fail(error: ModelUnavailable) -> typer.Exit:
    typer.echo(f"error: {error}", err=True)
    return typer.Exit(1)


@app.command("make-tiny")
def make_tiny_models(directory: Directory) -> None:
    """Write the seeded tiny SD 1.5, SDXL and AnimateDiff pipelines: the same bytes each time, on any machine."""
    from gpu_consumer.models.tiny import make_tiny  # torch takes seconds, and the other commands do not need it

    for name, digest in make_tiny(directory).items():
        typer.echo(f"{digest}  {directory / name}")


@app.command("digest")
def digest(folder: Folder) -> None:
    """Print the digest of a model folder, as a config names it."""
    try:
        typer.echo(model_digest(folder))
    except ModelUnavailable as error:
        raise _fail(error) from error


@app.command("verify")
def verify_folder(folder: Folder, digest: Digest) -> None:
    """Check that a model folder has exactly this content; exit 1 if not."""
    try:
        verify(folder, digest)
    except ModelUnavailable as error:
        raise _fail(error) from error
    typer.echo(f"{folder} is {digest}")
