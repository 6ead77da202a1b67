"""`kiln configs`: the frozen, versioned inference parameters and their lock."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError
from rich.console import Console
from rich.table import Table

from schemas.catalogue import ConfigCatalogue
from schemas.config import GenerationConfig
from schemas.deployment import DeploymentSettings
from schemas.errors import CatalogueError, CommandError
from schemas.lock import check_lock, write_lock
from schemas.request import ConfigRef, first_problem

app = typer.Typer(no_args_is_help=True, help="Configurations: frozen, versioned inference parameters.")
Folder = Annotated[Path | None, typer.Option("--configs", help="Folder of the YAML files.")]


def _settings(folder: Path | None) -> DeploymentSettings:
    return DeploymentSettings(configs=folder) if folder else DeploymentSettings()


@app.command("list")
def list_configs(folder: Folder = None) -> None:
    """Show every version, its hash and the channels that point to it."""
    settings = _settings(folder)
    table = Table("config", "channels", "family", "size", "steps", "scheduler", "bucket", "hash")
    for file in _catalogue(settings).files.values():
        for number, config in sorted(file.versions.items()):
            channels = ", ".join(name for name, weights in file.channels.items() if number in weights)
            table.add_row(
                config.label, channels, config.family, f"{config.width}x{config.height}", str(config.steps),
                config.scheduler, str(config.bucket), config.config_hash[:12],
            )  # fmt: skip
    Console().print(table)


@app.command()
def show(name: str, version: Annotated[int | None, typer.Option()] = None, folder: Folder = None) -> None:
    """Print one configuration as JSON, with its hash."""
    try:
        wanted = ConfigRef(name=name, version=version)
    except ValidationError as error:
        raise CommandError(first_problem(error)[1]) from error
    found = _catalogue(_settings(folder)).resolve(wanted, b"")
    if not isinstance(found, GenerationConfig):
        raise CommandError(found.message)
    Console().print_json(json.dumps(found.model_dump(mode="json") | {"config_hash": found.config_hash}))


@app.command()
def check(folder: Folder = None) -> None:
    """Exit 1 where a file is wrong or a published version changed."""
    settings = _settings(folder)
    _refuse(check_lock, settings)
    Console().print(f"{settings.configs}: every published version is as it was")


@app.command()
def lock(folder: Folder = None) -> None:
    """Record the hashes of new versions. Refuses where a published version changed."""
    settings = _settings(folder)
    _refuse(write_lock, settings)
    Console().print(f"{settings.configs}/configs.lock is up to date")


def _refuse(look: Callable[[ConfigCatalogue, Path], list[str]], settings: DeploymentSettings) -> None:
    try:
        problems = look(_catalogue(settings), settings.configs)
    except (CatalogueError, OSError) as error:
        raise CommandError(str(error)) from error
    if problems:
        raise CommandError("\n".join(problems))


def _catalogue(settings: DeploymentSettings) -> ConfigCatalogue:
    try:
        return settings.load_configs()
    except CatalogueError as error:
        raise CommandError(str(error)) from error
