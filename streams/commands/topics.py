"""`kiln topics`: the catalogue's topics, created and checked."""

from typing import Annotated

import typer
from rich.console import Console

from schemas.errors import CommandError, told
from schemas.settings import read_settings
from streams.commands.common import deployment, run
from streams.kafka.admin import check_topics, create_topics, offsets_retention_minutes
from streams.kafka.drift import forgets
from streams.settings import AdmissionServiceSettings

app = typer.Typer(no_args_is_help=True, help="Topics: what the catalogue says, applied and checked.")
Replication = Annotated[
    int | None,
    typer.Option(min=1, help="Copies of each partition; as many as there are brokers, 3 at most, if absent."),
]

_RENEW = "KILN_ADMISSION_SERVICE_RENEW_OFFSETS_SECONDS"
_out = Console()


@app.command()
def create(replication: Replication = None) -> None:
    """Create the topics that are missing, and return when every partition has a leader. Alters nothing."""
    kafka, catalogue = deployment(with_tenants=True)
    created = run(create_topics(kafka, catalogue, replication=replication))
    for name in created:
        _out.print(f"created {name}", highlight=False, soft_wrap=True)
    present = sum(1 for _ in catalogue.specs()) - len(created)
    _out.print(f"{len(created)} created, {present} there before.")


@app.command()
def check(replication: Replication = None) -> None:
    """Say in one sentence each how the cluster differs from the catalogue, and whether it keeps the offsets of pools
    that sleep. Exits 1 where it differs, or does not keep them."""
    kafka, catalogue = deployment(with_tenants=True)
    renew_seconds = read_settings(AdmissionServiceSettings).renew_offsets_seconds
    found = run(check_topics(kafka, catalogue, replication=replication))
    try:
        if (sentence := forgets(run(offsets_retention_minutes(kafka)), renew_seconds, _RENEW)) is not None:
            found.append(sentence)
    except CommandError as error:
        typer.echo(f"note: how long the brokers keep offsets is not known: {told(error)}", err=True)
    if found:
        raise CommandError("\n".join(found))
    _out.print("Every topic is as the catalogue says.")
