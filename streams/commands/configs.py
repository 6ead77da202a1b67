"""`kiln configs`: the frozen, versioned inference parameters, their lock, and what is in force of them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Column, Table

from schemas.catalogue import ConfigCatalogue, ConfigProblem
from schemas.config import GenerationConfig
from schemas.config_file import ConfigFile
from schemas.counted import counted
from schemas.differences import differences
from schemas.effects import effects
from schemas.errors import CatalogueError, CommandError
from schemas.families import doubts
from schemas.lock import write_lock
from schemas.reference import config_ref, one_config
from streams.commands import configs_control
from streams.commands.declared import Declared, Folder

app = typer.Typer(no_args_is_help=True, help="Configurations: frozen, versioned inference parameters.")
app.command()(configs_control.publish)
app.command()(configs_control.retire)
app.command()(configs_control.channel)

Live = Annotated[bool, typer.Option("--live", help="What is in force: the files, with what control says on top.")]


@app.command("list")
def list_configs(folder: Folder = None, live: Live = False) -> None:
    """Show every version, its hash and the channels that lead to it."""
    table = Table(Column("config", no_wrap=True), "leads there", "what", "GPU s", Column("hash", no_wrap=True))
    for file in _catalogue(folder, live).files.values():
        for _, config in sorted(file.versions.items()):
            what = (
                f"{config.family} {config.width}x{config.height}{f'x{config.frames}' if config.frames > 1 else ''}, "
                f"{counted(config.steps, 'step')} {config.scheduler}"
            )
            leads = "; ".join((*_channels(file, config), *_stands_in(file, config)))
            table.add_row(config.label, leads, what, f"{config.price.gpu_seconds:g}", config.config_hash[:12])
    Console(markup=False).print(table)


def _channels(file: ConfigFile, config: GenerationConfig) -> Iterator[str]:
    if config.retired:
        yield "RETIRED"
    for name, weights in file.channels.items():
        if config.version in weights:
            share = weights[config.version] / sum(weights.values())
            yield name if len(weights) == 1 else f"{name} {100 * share:.3g} %"


def _stands_in(file: ConfigFile, config: GenerationConfig) -> Iterator[str]:
    for asked, taken in file.compatible.items():
        if taken == config.version:
            yield f"compatible with {asked}"
    if config.version in file.degrades_to:
        yield f"degrades to {file.degrades_to[config.version]}"


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="NAME[@VERSION|:CHANNEL]")],
    folder: Folder = None,
    live: Live = False,
) -> None:
    """Print a configuration as JSON, with its hash; of a channel with several versions, each with its share."""
    found = _catalogue(folder, live).choices(config_ref(name))
    if isinstance(found, ConfigProblem):
        raise CommandError(found.message)
    total = sum(choice.weight for choice in found)
    shown = [_shown(choice.config) for choice in found]
    if len(found) > 1:
        shown = [{"share": choice.weight / total} | body for choice, body in zip(found, shown, strict=True)]
    Console().print_json(json.dumps(shown if len(shown) > 1 else shown[0]))


@app.command()
def check(folder: Folder = None) -> None:
    """Exit 1 where a file is wrong, a published version changed, or channels, siblings and pools do not fit."""
    files = Declared.of(folder)
    if problems := files.problems:
        raise CommandError("\n".join(problems))
    for file in files.catalogue.files.values():
        for config in file.versions.values():
            for doubt in doubts(config) if not config.retired else ():
                typer.echo(f"note: {doubt}")
    Console().print(f"{files.settings.configs}: every published version is as it was", highlight=False, soft_wrap=True)


@app.command()
def lock(folder: Folder = None) -> None:
    """Record the hashes of new versions. Refuses where a published version changed."""
    files = Declared.of(folder)
    try:
        problems = write_lock(files.catalogue, files.settings.configs)
    except (CatalogueError, OSError) as error:
        raise CommandError(str(error)) from error
    if problems:
        raise CommandError("\n".join(problems))
    Console().print(f"{files.settings.configs}/configs.lock is up to date", highlight=False, soft_wrap=True)


@app.command()
def diff(
    one: Annotated[str, typer.Argument(metavar="A", help="NAME, NAME@VERSION or NAME:CHANNEL.", show_default=False)],
    other: Annotated[str | None, typer.Argument(metavar="[B]", help="As A.", show_default=False)] = None,
    folder: Folder = None,
    live: Live = False,
) -> None:
    """Tell how A and B differ: fields, pixels, price. A alone: its file from the lock, and from control."""
    if other is None:
        _diff_with_what_is_in_force(one, folder)
        return
    catalogue = _catalogue(folder, live)
    _print_differences(one_config(catalogue, one), one_config(catalogue, other))


def _diff_with_what_is_in_force(name: str, folder: Path | None) -> None:
    files = Declared.of(folder)
    file = files.catalogue.files.get(name)
    if file is None:
        known = ", ".join(sorted(files.catalogue.files))
        raise CommandError(f"{files.settings.configs} has no config {name!r}; it has: {known}")
    for config in file.versions.values():
        was = files.locked.get(config.label)
        state = "not in the lock yet" if was is None else "as in the lock" if was == config.config_hash else "CHANGED"
        typer.echo(f"{config.label} {config.config_hash[:12]} {state}")
    controls = files.controls(files.hashes)
    in_force = files.with_control(controls).configs
    typer.echo(f"control has {'' if name in controls.configs else 'not '}published {name}")
    lines = effects(in_force, files.catalogue, name)
    for line in lines:
        typer.echo(f"by the file alone, {line}")
    if not lines:
        typer.echo("every reference gets what the file says")
    for config in file.versions.values():
        running = in_force.files[name].versions.get(config.version)
        if running is not None and differences(running, config):
            typer.echo(f"{config.label}, as it is in force and in the file:")
            _print_differences(running, config, ("in force", "file"))


def _print_differences(one: GenerationConfig, other: GenerationConfig, titles: tuple[str, str] | None = None) -> None:
    found = differences(one, other)
    table = Table("field", *(titles or (one.label, other.label)), "pixels")
    for each in found:
        table.add_row(each.field, _spelt(each.one), _spelt(each.other), "yes" if each.pixels else "")
    if found:
        Console(markup=False).print(table)
    same = one.config_hash == other.config_hash
    typer.echo("the same pixels" if same else f"other pixels: {one.config_hash[:12]} and {other.config_hash[:12]}")
    typer.echo(
        "the same model stays loaded" if one.model_key == other.model_key else "another model: a swap between them"
    )
    ratio = other.price.gpu_seconds / one.price.gpu_seconds
    typer.echo(f"price {one.price.gpu_seconds:g} -> {other.price.gpu_seconds:g} GPU-seconds a picture: x {ratio:.3g}")


def _catalogue(folder: Path | None, live: bool) -> ConfigCatalogue:
    files = Declared.of(folder)
    return files.with_control(files.controls(files.hashes)).configs if live else files.catalogue


def _shown(config: GenerationConfig) -> dict[str, object]:
    return config.model_dump(mode="json") | {"config_hash": config.config_hash}


def _spelt(value: object) -> str:
    return "" if value is None else json.dumps(value)
