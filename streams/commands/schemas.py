"""`kiln schemas`: what is said on each topic, for those who do not read Python."""

import json
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from schemas.errors import CommandError, told
from schemas.export import asyncapi, json_schemas
from schemas.pools import Pool, Pools
from schemas.topics import Catalogue, TopicSettings

app = typer.Typer(no_args_is_help=True, help="The schemas of every event.")

PUBLISHED = Path("docs/schemas")


@app.callback()
def schemas() -> None:
    """The schemas of every event."""


def documents() -> dict[str, dict[str, Any]]:
    """File name -> document: one JSON Schema an event, and the AsyncAPI document of the default names."""
    pools = Pools(pools={"default": Pool(gpu_product="any", vram_bytes=1, price_usd_per_hour=0)})
    catalogue = Catalogue(TopicSettings.model_construct(), pools)
    files = {f"{name}.schema.json": schema for name, schema in json_schemas().items()}
    return files | {"asyncapi.json": asyncapi(catalogue, version("promptkiln"))}


def text_of(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def drift(folder: Path) -> list[str]:
    """One sentence for each published document that differs from the code."""
    problems = []
    for name, document in documents().items():
        path = folder / name
        if not path.exists():
            problems.append(f"{path} is missing; run kiln schemas export")
        elif path.read_text(encoding="utf-8") != text_of(document):
            problems.append(f"{path} differs from the code; run kiln schemas export")
    return problems


@app.command()
def export(
    folder: Annotated[Path, typer.Argument(help="Where the documents go.")] = PUBLISHED,
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit 1 where they differ.")] = False,
) -> None:
    """Write JSON Schema of every event and an AsyncAPI 3 document."""
    if check:
        problems = drift(folder)
        if problems:
            raise CommandError("\n".join(problems))
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, document in documents().items():
            (folder / name).write_text(text_of(document), encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{folder} cannot be written: {told(error)}; name another folder") from error
    Console().print(f"{len(documents())} documents in {folder}")
