"""`kiln broker`: the development broker from the command line."""

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from infra.broker import server
from infra.broker.server import State
from infra.broker.settings import BrokerSettings
from schemas.settings import read_settings

app = typer.Typer(help="The development broker: a real Apache Kafka on this machine.", no_args_is_help=True)

_out = Console()
_err = Console(stderr=True)

# As the Linux Standard Base numbers the states of a service, so that scripts can tell them apart.
_EXIT_CODES = {State.RUNNING: 0, State.CRASHED: 1, State.STOPPED: 3, State.SILENT: 4}


@app.command()
def up(
    brokers: Annotated[
        int | None, typer.Option(min=1, max=3, help="Processes: 1, or 3 to lose one and go on. Fixed at first start.")
    ] = None,
) -> None:
    """Start the broker, and return when it has acknowledged a record. Fetches Apache Kafka once.

    Exits 0 when it runs, also when it ran before; 1 with a sentence when it cannot.
    """
    if brokers == 2:
        raise typer.BadParameter("two cannot outvote one that is lost; take 1 or 3", param_hint="--brokers")
    started = server.up(read_settings(BrokerSettings), _err, brokers=brokers)
    if started.already_running:
        _out.print(f"The broker runs already at [bold]{started.bootstrap}[/].", soft_wrap=True)
    else:
        ready = f"ready after {started.seconds:.1f} s"
        _out.print(f"The broker runs at [bold]{started.bootstrap}[/], {ready}.", soft_wrap=True)


@app.command()
def down() -> None:
    """Stop the broker and keep its data. Exits 0, also when none ran."""
    stopped = server.down(read_settings(BrokerSettings))
    _out.print("The broker is stopped; its data is kept." if stopped else "No broker runs.")


@app.command()
def status() -> None:
    """Say whether the broker runs and acknowledges.

    Exits 0 when it does, 1 when a process is gone without `down`, 3 when it is stopped, 4 when it lives and
    acknowledges nothing.
    """
    found = server.status(read_settings(BrokerSettings))
    _out.print(found.sentence, soft_wrap=True)
    if found.pids:
        table = Table.grid(padding=(0, 2))
        table.add_row("processes", " ".join(map(str, found.pids)))
        if found.resident_bytes is not None:
            table.add_row("memory", f"{found.resident_bytes / (1 << 20):.0f} MiB")
        _out.print(table)
    raise typer.Exit(_EXIT_CODES[found.state])
