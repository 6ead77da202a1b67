"""The command line. Each sub-command registers itself by the entry point group `promptkiln.commands`.

`configs.compare` is one of the group `configs`, which another package may have registered.
"""

import sys
from importlib.metadata import entry_points

import typer
from rich.console import Console

from schemas.errors import CommandError

GROUP = "promptkiln.commands"
EXIT_INTERRUPTED = 130


def build() -> typer.Typer:
    """The `kiln` application with every registered sub-command."""
    app = typer.Typer(
        name="kiln",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        add_completion=False,
        help="Prompt events in, pictures out: an event-driven pipeline on Kafka.",
    )
    groups: dict[str, typer.Typer] = {"": app}
    for entry in sorted(entry_points(group=GROUP), key=lambda each: each.name):
        group, _, name = entry.name.rpartition(".")
        loaded = entry.load()
        if isinstance(loaded, typer.Typer):
            groups[entry.name] = loaded
            groups[group].add_typer(loaded, name=name)
        else:
            groups[group].command(name=name)(loaded)
    return app


def main() -> None:
    """Run `kiln`. Exit status: 0 done, 1 the sentence on stderr says why not, 2 wrong usage, 130 interrupted."""
    try:
        build()()
    except CommandError as error:
        Console(stderr=True).print(f"kiln: {error}", style="red", highlight=False, markup=False, soft_wrap=True)
        sys.exit(error.code)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
