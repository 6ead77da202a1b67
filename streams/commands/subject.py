"""Whom an operator stops: a tenant, a config or a version of it, or a pool. A name that nobody has is refused."""

import re
from typing import Annotated

import typer

from schemas.control import Subject, SubjectKind
from schemas.errors import CommandError
from schemas.names import TENANT_PATTERN
from schemas.reference import config_ref
from schemas.topics import Catalogue
from streams.commands.declared import Declared

Kind = Annotated[SubjectKind, typer.Argument(help="What is stopped.", show_default=False)]
Name = Annotated[str, typer.Argument(help="Its name; of a config NAME or NAME@VERSION.", show_default=False)]
Reason = Annotated[str, typer.Option(help="For people: senders read it.")]
REASON_MAX = 500


def known(kind: SubjectKind, name: str, catalogue: Catalogue) -> Subject:
    """Raises CommandError where it is a misspelling: what stops nothing would look as if it had stopped something.

    Tenants may have the default quota, so any name of the right form is one. Asks the cluster for configs that were
    published without a file.
    """
    if kind == "tenant" and not re.fullmatch(TENANT_PATTERN, name):
        raise CommandError(f"{name!r} can be no tenant; it has 1 to 64 of the letters A-Z a-z 0-9 . _ -", 2)
    if kind == "pool" and name not in catalogue.pools:
        raise CommandError(f"there is no pool {name!r}; there are: {', '.join(sorted(catalogue.pools))}")
    if kind == "config":
        _known_config(name)
    return Subject(kind, name)


def _known_config(text: str) -> None:
    ref = config_ref(text)
    if ref.channel is not None:
        raise CommandError(f"{text!r} names a channel; stop a config, NAME, or a version, NAME@VERSION", 2)
    declared = Declared.of(None)
    files = declared.with_control(declared.controls(declared.hashes)).configs.files
    if ref.name not in files:
        raise CommandError(f"there is no config {ref.name!r}; there are: {', '.join(sorted(files)) or 'none'}")
    versions = files[ref.name].versions
    if ref.version is not None and ref.version not in versions:
        there = ", ".join(map(str, sorted(versions)))
        raise CommandError(f"config {ref.name!r} has no version {ref.version}; it has: {there}")


def checked_reason(reason: str) -> str:
    if len(reason) > REASON_MAX:
        raise CommandError(f"a reason of {len(reason)} characters; write at most {REASON_MAX}", 2)
    return reason
