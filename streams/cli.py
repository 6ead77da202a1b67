"""The command line. Each sub-command registers itself by the entry point group `promptkiln.commands`.

`configs.compare` is one of the group `configs`, which another package may have registered. A command that cannot be
loaded says so where it is called; the others need nothing of it, and nor do they wait for it.
"""

import sys
from importlib.metadata import EntryPoint, entry_points

import typer
from rich.console import Console

from schemas.errors import CommandError

GROUP = "promptkiln.commands"
EXIT_INTERRUPTED = 130


def build(asked: str = "") -> typer.Typer:
    """The `kiln` application with every registered sub-command, or with the one that is `asked` for where there is such
    a one: to import all of them takes longer than most of them take."""
    app = typer.Typer(
        name="kiln",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        add_completion=False,
        help="Prompt events in, pictures out: an event-driven pipeline on Kafka. Commands ask the Kafka that "
        "KAFKA_BOOTSTRAP_SERVERS names, or else the one that `kiln broker up` started.",
    )
    app.callback()(_nothing_of_its_own)
    groups: dict[str, typer.Typer] = {"": app}
    entries = sorted(entry_points(group=GROUP), key=lambda each: each.name)
    for entry in [each for each in entries if each.name.partition(".")[0] == asked] or entries:
        group, _, name = entry.name.rpartition(".")
        try:
            loaded = entry.load()
        except (ImportError, AttributeError) as error:
            _say_broken(groups[group], name, entry, error)
            groups[entry.name] = typer.Typer()  # for those below it, which nobody reaches
            continue
        if isinstance(loaded, typer.Typer):
            groups[entry.name] = loaded
            groups[group].add_typer(loaded, name=name)
        else:
            groups[group].command(name=name)(loaded)
    return app


def _nothing_of_its_own() -> None:
    """Without it typer takes a single sub-command for the whole application."""


def _say_broken(group: typer.Typer, name: str, entry: EntryPoint, error: Exception) -> None:
    sentence = (
        f"{entry.name} is installed as {entry.value}, which cannot be loaded ({error}); install that package again"
    )
    anything = {"allow_extra_args": True, "ignore_unknown_options": True}

    @group.command(name=name, help=f"Broken: {sentence}.", add_help_option=False, context_settings=anything)
    def broken() -> None:
        raise CommandError(sentence) from error


def main() -> None:
    """Run `kiln`. Exit status: 0 done, 1 the sentence on stderr says why not, 2 wrong usage, 130 interrupted."""
    try:
        build(*sys.argv[1:2])()
    except CommandError as error:
        Console(stderr=True).print(f"kiln: {error}", style="red", highlight=False, markup=False, soft_wrap=True)
        sys.exit(error.code)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
