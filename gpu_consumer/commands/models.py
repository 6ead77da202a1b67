"""kiln models: write the tiny ones and those that draw shapes, and say or check what a folder holds."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from gpu_consumer.models.digests import ModelUnavailable, model_digest, verify
from schemas.errors import CommandError, told

app = typer.Typer(
    help="Model folders: make, add and train the small ones, name and verify their content.", no_args_is_help=True
)

Directory = Annotated[
    Path, typer.Argument(help="The models directory; created if it is not there.", show_default=False)
]
Digest = Annotated[str, typer.Option("--digest", help="sha256: and 64 hex digits.", show_default=False)]
Folder = Annotated[Path, typer.Argument(help="A folder as save_pretrained writes it.", show_default=False)]


@contextmanager
def _sentences(folder: Path) -> Iterator[None]:
    """What a model folder is not, or where none can be written, ends the command."""
    try:
        yield
    except ModelUnavailable as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        raise CommandError(f"{error.filename or folder}: {told(error)}; name another folder") from error


@app.command("make-tiny")
def make_tiny_models(directory: Directory) -> None:
    """Write the seeded tiny SD 1.5, SDXL, SD3 and AnimateDiff pipelines: the same bytes each time, on any machine."""
    from gpu_consumer.models.tiny import make_tiny  # torch takes seconds, and the other commands do not need it

    with _sentences(directory):
        for name, digest in make_tiny(directory).items():
            typer.echo(f"{digest}  {directory / name}")


@app.command("add-shapes")
def add_shapes_models(directory: Directory) -> None:
    """Copy the small SD 1.5 that draws coloured shapes, trained already, into a models directory, and beside it the
    AnimateDiff that is made of it."""
    from gpu_consumer.models.shapes.kept import NAME, add_shapes

    with _sentences(directory):
        typer.echo(f"{add_shapes(directory)}  {directory / NAME}")
        from gpu_consumer.models.shapes import moving  # imports torch, after the copy that needs none

        typer.echo(f"{moving.add_moving_shapes(directory)}  {directory / moving.NAME}")


@app.command("train-shapes")
def train_shapes_model(
    directory: Directory,
    seed: Annotated[int, typer.Option(min=0, help="Of the lessons, the first weights and the noise.")] = 0,
) -> None:
    """Train that model from nothing, on pictures drawn in code: about an hour on two cores.

    Stopped, it goes on from its last checkpoint when started again.
    """
    from gpu_consumer.models.shapes.kept import NAME
    from gpu_consumer.models.shapes.train import Plan, train_shapes

    with _sentences(directory):
        digest = train_shapes(directory, Plan(seed=seed), typer.echo)
    typer.echo(f"{digest}  {directory / NAME}")


@app.command("digest")
def digest(folder: Folder) -> None:
    """Print the digest of a model folder, as a config names it."""
    with _sentences(folder):
        typer.echo(model_digest(folder))


@app.command("verify")
def verify_folder(folder: Folder, digest: Digest) -> None:
    """Check that a model folder has exactly this content; exit 1 if not."""
    with _sentences(folder):
        verify(folder, digest)
    typer.echo(f"{folder} is {digest}")
