"""`kiln drop`: the kill switch. Everything that is there of a tenant, a config or a pool ends as cancelled."""

import sys
from typing import Annotated

import typer

from schemas.control import Drop, Subject, control_key
from schemas.errors import CommandError
from schemas.stops import in_words
from streams.commands.common import deployment, run
from streams.commands.declared import Declared
from streams.commands.subject import Kind, Name, Reason, checked_reason, known
from streams.control_log import say


def drop(
    kind: Kind,
    name: Name,
    reason: Reason = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Spare what has not ended yet.")] = False,
) -> None:
    """End everything that was sent before and has not ended, as cancelled; what runs ends at its next step.

    What is sent later enters as before, unless it is paused too.
    """
    kafka, catalogue = deployment()
    if undo:
        subject = Subject(kind, name)
        if subject not in Declared.controls({}).dropped:
            raise CommandError(f"{in_words(subject, 'was not dropped')}; `kiln controls` shows what was")
        run(say(kafka, catalogue, [(_key(subject), None)]))
        typer.echo(f"{in_words(subject, 'is not dropped')}; what has ended stays so")
        return
    subject = known(kind, name, catalogue)
    said = Drop(reason=checked_reason(reason))
    confirm(subject, yes=yes)
    run(say(kafka, catalogue, [(_key(subject), said)]))
    typer.echo(
        f"{in_words(subject, 'is dropped')}; later requests enter again, unless you `kiln pause {kind} {name}` as well"
    )


def _key(subject: Subject) -> bytes:
    return control_key("drop", subject.kind, subject.name)


def confirm(subject: Subject, *, yes: bool) -> None:
    """Tell what will come of it, and ask. Raises CommandError where nobody can answer, typer.Abort on a no."""
    what = {"tenant": "of this tenant", "config": "for this config", "pool": "for this pool"}[subject.kind]
    typer.echo(
        f"{subject.kind} {subject.name!r}: every request {what} that was sent until now and has not ended will end as "
        "cancelled, also while it runs. What it has drawn so far is lost, and what has ended cannot be taken back."
    )
    if yes:
        return
    if not sys.stdin.isatty():
        raise CommandError("nobody is there to ask; say --yes", 2)
    typer.confirm("Drop it?", abort=True)
