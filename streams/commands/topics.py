"""`kiln topics`: the catalogue's topics, created and checked."""

import asyncio
from collections.abc import Coroutine
from typing import Annotated, Any, TypeVar

import typer
from aiokafka.errors import KafkaError
from rich.console import Console

from schemas.deployment import DeploymentSettings
from schemas.errors import CatalogueError, CommandError
from schemas.topics import Catalogue
from streams.kafka.admin import check_topics, create_topics
from streams.kafka.errors import ConnectionSettingsError
from streams.kafka.settings import KafkaSettings

app = typer.Typer(no_args_is_help=True, help="Topics: what the catalogue says, applied and checked.")
Replication = Annotated[
    int | None,
    typer.Option(min=1, help="Copies of each partition; as many as there are brokers, 3 at most, if absent."),
]

_Result = TypeVar("_Result")
_out = Console()


@app.command()
def create(replication: Replication = None) -> None:
    """Create the topics that are missing, and return when every partition has a leader. Alters nothing."""
    catalogue = _catalogue()
    created = _run(create_topics(_kafka(), catalogue, replication=replication))
    for name in created:
        _out.print(f"created {name}", highlight=False, soft_wrap=True)
    present = sum(1 for _ in catalogue.specs()) - len(created)
    _out.print(f"{len(created)} created, {present} were there.")


@app.command()
def check(replication: Replication = None) -> None:
    """Say in one sentence each how the cluster differs from the catalogue. Exits 1 where it does."""
    catalogue = _catalogue()
    if found := _run(check_topics(_kafka(), catalogue, replication=replication)):
        raise CommandError("\n".join(found))
    _out.print("Every topic is as the catalogue says.")


def _catalogue() -> Catalogue:
    try:
        return DeploymentSettings().catalogue()
    except CatalogueError as error:
        raise CommandError(str(error)) from error


def _kafka() -> KafkaSettings:
    try:
        return KafkaSettings.load()
    except ConnectionSettingsError as error:
        raise CommandError(str(error)) from error


def _run(work: Coroutine[Any, Any, _Result]) -> _Result:
    try:
        return asyncio.run(work)
    except KafkaError as error:
        raise CommandError(f"Kafka cannot be asked ({error}); look at `kiln broker status`.") from error
