"""`kiln pause` and `kiln resume`: keep new requests out, or a pool from working, until it is taken back or over."""

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from schemas.control import Pause, Subject, SubjectKind, control_key
from schemas.errors import CommandError
from schemas.stops import in_words
from streams.commands.common import deployment, run
from streams.commands.declared import Declared
from streams.commands.subject import Kind, Name, Reason, checked_reason, known
from streams.control_log import say

_SPAN = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_EFFECTS: dict[SubjectKind, str] = {
    "tenant": "its new requests are refused, and what was accepted before still runs",
    "config": "new requests for it are refused, and what was accepted before still runs",
    "pool": "new requests for it are refused; its consumers finish what runs and begin nothing more",
}


def pause(
    kind: Kind,
    name: Name,
    reason: Reason = "",
    span: Annotated[
        str | None, typer.Option("--for", metavar="SPAN", help="For how long: 90s, 10m, 2h or 1d; else until resumed.")
    ] = None,
) -> None:
    """Refuse new requests of a tenant, for a config or for a pool; a pool's consumers also stop taking work.

    As in: kiln pause pool default --for 10m --reason "new drivers"
    """
    kafka, catalogue = deployment()
    until = None if span is None else _from_now(span)
    subject = known(kind, name, catalogue)
    said = Pause(reason=checked_reason(reason), until=until)
    run(say(kafka, catalogue, [(_key(subject), said)]))
    ends = f"until {until:%Y-%m-%dT%H:%M:%SZ}" if until else f"until `kiln resume {kind} {name}`"
    typer.echo(f"{in_words(subject, 'is paused')} {ends}: {_EFFECTS[kind]}")


def resume(kind: Kind, name: Name) -> None:
    """Take a pause back. Requests that were refused meanwhile stay refused: they are sent again under new ids."""
    kafka, catalogue = deployment()
    subject = Subject(kind, name)  # also one that has gone from the files since it was paused
    if subject not in Declared.controls({}).paused:
        raise CommandError(f"{in_words(subject, 'is not paused')}; `kiln controls` shows what is")
    run(say(kafka, catalogue, [(_key(subject), None)]))
    typer.echo(in_words(subject, "is not paused any more"))


def _key(subject: Subject) -> bytes:
    return control_key("pause", subject.kind, subject.name)


def _from_now(span: str) -> datetime:
    found = _SPAN.fullmatch(span)
    if found is None:
        raise CommandError(f"{span!r} is no span; write such as 90s, 10m, 2h or 1d", 2)
    try:
        return datetime.now(UTC) + timedelta(seconds=float(found[1]) * _UNIT_SECONDS[found[2]])
    except OverflowError as error:
        raise CommandError(f"{span} from now has no date; leave --for out to pause until it is resumed", 2) from error
