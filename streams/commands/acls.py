"""`kiln acls`: what each process must be allowed, as arguments of Kafka's own command."""

import shlex
from collections.abc import Iterator
from typing import Annotated

import typer

from schemas.errors import CommandError
from streams.acls import Acl, roles
from streams.commands.common import declared

_NAMES = {
    "read": "Read",
    "write": "Write",
    "create": "Create",
    "describe": "Describe",
    "describe-configs": "DescribeConfigs",
}


def acls(
    role: Annotated[str | None, typer.Option(help="This role alone; without it, all of them.")] = None,
    principal: Annotated[str, typer.Option(help="Who is allowed; {role} is replaced.")] = "User:kiln-{role}",
) -> None:
    """Print a line of arguments for kafka-acls.sh for each resource of each role. The cluster is not asked.

    Feed them to it by: kiln acls | xargs -L1 kafka-acls.sh --bootstrap-server HOST:PORT --add
    """
    known = roles(declared(with_tenants=True))
    if role is not None and role not in known:
        raise CommandError(f"there is no role {role!r}; there are: {', '.join(known)}")
    for name in known if role is None else (role,):
        for line in _lines(known[name], principal.replace("{role}", name.replace("/", "-"))):
            typer.echo(line)


def _lines(needed: tuple[Acl, ...], principal: str) -> Iterator[str]:
    for acl in needed:
        pattern = ["--resource-pattern-type", "prefixed"] if acl.prefixed else []
        operations = [word for operation in acl.operations for word in ("--operation", _NAMES[operation])]
        yield shlex.join(
            ["--allow-principal", principal, *operations, f"--{acl.resource}", *filter(None, [acl.name]), *pattern]
        )
