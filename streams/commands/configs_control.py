"""`kiln configs publish | retire | channel`: said in control, and true in every running admission without a restart."""

from typing import Annotated

import typer
from pydantic import BaseModel, ValidationError

from schemas.catalogue import ConfigCatalogue, ConfigProblem
from schemas.codec import encode
from schemas.config_file import ConfigFile
from schemas.control import Channel, PublishConfig, PublishedVersion, Retire, control_key
from schemas.cross_check import siblings
from schemas.effects import effects, outcomes, spelt
from schemas.errors import CommandError
from schemas.reference import config_ref
from schemas.request import ConfigRef
from streams.commands.common import deployment, run
from streams.commands.declared import Declared, Folder
from streams.commands.subject import checked_reason
from streams.control import Controls
from streams.control_log import say

Reason = Annotated[str, typer.Option(help="For people.")]
Undo = Annotated[bool, typer.Option("--undo", help="Take back what control says about it.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would become of it, and leave it.")]


def publish(
    name: Annotated[str, typer.Argument(help="The configuration; its file is NAME.yaml.", show_default=False)],
    reason: Reason = "",
    undo: Undo = False,
    dry_run: DryRun = False,
    folder: Folder = None,
) -> None:
    """Publish a file to every running admission: all its versions, channels, compatible ones and siblings.

    It stands in for the file of that name in each process, until it is taken back. Refused where `check` fails, and
    where a version was published before with other pixels.
    """
    files = Declared.of(folder)
    if undo:
        _say(files, ConfigRef(name=name), control_key("config", name), None, dry_run)
        return
    if name not in files.catalogue.files:
        known = ", ".join(sorted(files.catalogue.files))
        raise CommandError(f"{files.settings.configs} has no config {name!r}; it has: {known}")
    if problems := files.problems:
        raise CommandError("\n".join(problems))
    said = PublishConfig(file=files.catalogue.files[name], reason=checked_reason(reason))
    _say(files, ConfigRef(name=name), control_key("config", name), said, dry_run)


def retire(
    label: Annotated[str, typer.Argument(metavar="NAME@VERSION", show_default=False)],
    reason: Reason = "",
    undo: Undo = False,
    dry_run: DryRun = False,
    folder: Folder = None,
) -> None:
    """Refuse new requests for a version; work that was admitted still runs.

    A compatible version takes them where one is declared, and the others of a channel take its share.
    """
    ref = config_ref(label)
    if ref.version is None:
        raise CommandError(f"{label!r} names no version; write NAME@NUMBER", 2)
    said = None if undo else Retire(reason=checked_reason(reason))
    _say(Declared.of(folder), ref, control_key("retire", ref.name, str(ref.version)), said, dry_run)


def channel(
    name: Annotated[str, typer.Argument(metavar="NAME:CHANNEL", show_default=False)],
    versions: Annotated[
        list[str] | None, typer.Argument(metavar="VERSION[=WEIGHT]...", help="Weights need not add up.")
    ] = None,
    reason: Reason = "",
    undo: Undo = False,
    dry_run: DryRun = False,
    folder: Folder = None,
) -> None:
    """Lead a channel to one version, or split it: `channel sketch:stable 1=95 2=5` gives version 2 a twentieth.

    Who gets which goes by the hash of tenant and request id: a canary that grows keeps the requests it had.
    """
    ref = config_ref(name)
    if ref.channel is None:
        raise CommandError(f"{name!r} names no channel; write NAME:CHANNEL", 2)
    if undo == bool(versions):
        raise CommandError("give the versions of the channel, or --undo", 2)
    files = Declared.of(folder)
    said = None if undo else _channel(versions or [], checked_reason(reason))
    _say(files, ref, control_key("channel", ref.name, ref.channel), said, dry_run)


def _channel(versions: list[str], reason: str) -> Channel:
    weights: dict[str, str] = {}
    for text in versions:
        version, equals, weight = text.partition("=")
        if version in weights:
            raise CommandError(f"version {version} stands twice; give it one weight", 2)
        weights[version] = weight if equals else "1"
    try:
        return Channel.model_validate({"versions": weights, "reason": reason})
    except ValidationError as error:
        detail = error.errors(include_url=False)[0]
        where = " ".join(str(part) for part in detail["loc"][1:2])
        said = detail["msg"].removeprefix("Value error, ")
        raise CommandError(f"{where or 'the versions'}: {said}; write VERSION=WEIGHT", 2) from error


def _say(files: Declared, ref: ConfigRef, key: bytes, said: BaseModel | None, dry_run: bool) -> None:
    """Hear it as admission would, tell what becomes of it, and then say it. Raises CommandError where it is refused."""
    kafka, catalogue = deployment()
    # A file is held against what control has published before, also where that is not what its own lock says.
    controls = files.controls({} if isinstance(said, PublishConfig) else files.hashes)
    before, changes, published = files.with_control(controls), controls.changes, set(controls.configs)
    records = [*_new_versions(said.file, controls), (key, said)] if isinstance(said, PublishConfig) else [(key, said)]
    for about, word in records:
        passed_over = controls.hear(about, None if word is None else encode(word), 0)
        if passed_over is not None:
            raise CommandError(passed_over.message)
    if controls.changes == changes:
        if said is None:
            raise CommandError(f"control says nothing of {key.decode()}; there is nothing to take back")
        typer.echo("control says so already")
        return
    after = files.with_control(controls)
    if said is not None and (new := [each for each in after.problems if each not in before.problems]):
        raise CommandError("\n".join(new))
    if isinstance(said, Channel) and isinstance(found := after.configs.choices(ref), ConfigProblem):
        raise CommandError(f"{spelt(ref)} would lead to nothing in use: {found.message}")
    for line in _becomes(before.configs, after.configs, ref.name, said, first=ref.name not in published):
        typer.echo(line)
    for problem in siblings(after.configs):
        if problem not in siblings(before.configs):
            typer.echo(f"note: {problem}")
    if dry_run:
        typer.echo("nothing was said")
        return
    run(say(kafka, catalogue, records))
    what = "taken back" if said is None else "said"
    typer.echo(f"{what} in {catalogue.control}; every running admission follows, and work that was admitted runs on")


def _new_versions(file: ConfigFile, controls: Controls) -> list[tuple[bytes, BaseModel | None]]:
    """What control is to remember of the file for ever: each version's hash. What it says already keeps its place."""
    return [
        (control_key("version", file.name, str(config.version), config.config_hash), PublishedVersion())
        for config in file.versions.values()
        if (config.label, config.config_hash) not in controls.versions
    ]


def _becomes(
    before: ConfigCatalogue, after: ConfigCatalogue, name: str, said: BaseModel | None, *, first: bool
) -> list[str]:
    """What requests get. The files that admission was started with are not known here, only those of this folder."""
    if isinstance(said, PublishConfig) and first:
        return [f"until now each admission had a file of {name} of its own; from now on:", *outcomes(after, name)]
    return effects(before, after, name) or ["no reference gets anything else than before"]
