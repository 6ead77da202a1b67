"""`kiln tenants`: what tenants may have, and another quota for one while everything runs."""

import json
import re
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from pydantic import ValidationError
from rich.console import Console
from rich.table import Column, Table

from schemas.control import SetQuota, control_key
from schemas.deployment import DeploymentSettings
from schemas.errors import CatalogueError, CommandError
from schemas.names import TENANT_PATTERN
from schemas.tenants import Quota, Tenants
from schemas.yaml_file import read_yaml
from streams.commands.common import deployment, run
from streams.commands.declared import Declared
from streams.commands.subject import checked_reason
from streams.control_log import say

app = typer.Typer(no_args_is_help=True, help="Tenants: what each may have, as files and control say.")
Tenant = Annotated[str, typer.Argument(help="The tenant.", show_default=False)]

_DEFAULT = "(any other)"


@app.command("set")
def set_quota(
    tenant: Tenant,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file",
            metavar="YAML",
            help="The quota, as tenants.yaml has it below a name.",
            show_default=False,
        ),
    ] = None,
    per_second: Annotated[float | None, typer.Option(help="Requests on the long run.", show_default=False)] = None,
    burst: Annotated[float | None, typer.Option(help="Requests at once.", show_default=False)] = None,
    reason: Annotated[str, typer.Option(help="For people.")] = "",
) -> None:
    """Give a tenant another quota from now on, instead of the whole of its own in tenants.yaml."""
    quota = _quota(file, per_second, burst)
    if quota.topic:
        raise CommandError("who has a topic of its own is for tenants.yaml to say; leave `topic` out", 2)
    kafka, catalogue = deployment()
    said = SetQuota(quota=quota, reason=checked_reason(reason))
    run(say(kafka, catalogue, [(_key(tenant), said)]))
    typer.echo(
        f"tenant {tenant!r} has {quota.per_second:g} requests a second and {quota.burst:g} at once, until "
        f"`kiln tenants unset {tenant}`"
    )


@app.command()
def unset(tenant: Tenant) -> None:
    """Take a quota back: what tenants.yaml says holds again."""
    kafka, catalogue = deployment()
    key = _key(tenant)
    if tenant not in Declared.controls({}).allowed:
        raise CommandError(f"control says nothing of tenant {tenant!r}; `kiln tenants show` shows what is in force")
    run(say(kafka, catalogue, [(key, None)]))
    typer.echo(f"tenant {tenant!r} has what tenants.yaml says")


@app.command()
def show(
    tenant: Annotated[str | None, typer.Argument(help="This tenant alone.", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="A list of tenant, said_by, reason and quota.")] = False,
) -> None:
    """Show the quotas in force, and who says so. A tenant that is not listed has the default, if there is one."""
    found = [each for each in _in_force() if tenant in (None, each["tenant"])]
    if tenant is not None and not found:
        found = [each | {"tenant": tenant} for each in _in_force() if each["tenant"] is None]
    if as_json:
        typer.echo(json.dumps(found))
        return
    if not found:
        typer.echo("there is no tenant" if tenant is None else f"there is no tenant {tenant!r}, and no default")
        return
    table = Table("tenant", "said by", Column("quota", overflow="fold"), "reason")
    for each in found:
        quota = yaml.safe_dump(each["quota"], default_flow_style=None, sort_keys=False).rstrip()
        table.add_row(each["tenant"] or _DEFAULT, each["said_by"], quota, each["reason"])
    Console(markup=False).print(table)


def _in_force() -> list[dict[str, Any]]:
    """By name; the default, whose tenant is null, last."""
    declared = _declared()
    said = Declared.controls({}).allowed
    rows = [_row(name, quota, "tenants.yaml") for name, quota in declared.tenants.items() if name not in said] + [
        _row(name, each.quota, "control", each.reason) for name, each in said.items()
    ]
    rows.sort(key=lambda row: str(row["tenant"]))
    return rows if declared.default is None else [*rows, _row(None, declared.default, "tenants.yaml")]


def _row(tenant: str | None, quota: Quota, said_by: str, reason: str = "") -> dict[str, Any]:
    chosen = quota.model_dump(mode="json", exclude_defaults=True)
    return {"tenant": tenant, "said_by": said_by, "reason": reason, "quota": chosen}


def _declared() -> Tenants:
    try:
        return DeploymentSettings().load_tenants()
    except CatalogueError as error:
        raise CommandError(str(error)) from error


def _quota(file: Path | None, per_second: float | None, burst: float | None) -> Quota:
    """Raises CommandError with the first thing wrong."""
    if (file is None) == (per_second is None and burst is None):
        raise CommandError("give --per-second and --burst, or --file with all that the tenant is to have", 2)
    if file is not None and not file.exists():
        raise CommandError(f"{file} does not exist; name a file with the quota", 2)
    try:
        if file is not None:
            return read_yaml(Quota, file)
        return Quota.model_validate({"per_second": per_second, "burst": burst})
    except CatalogueError as error:
        raise CommandError(str(error), 2) from error
    except ValidationError as error:
        detail = error.errors(include_url=False, include_input=False)[0]
        option = "--" + str(detail["loc"][0]).replace("_", "-")
        raise CommandError(f"{option}: {detail['msg']}", 2) from error


def _key(tenant: str) -> bytes:
    if not re.fullmatch(TENANT_PATTERN, tenant):
        raise CommandError(f"{tenant!r} can be no tenant; it has 1 to 64 of the letters A-Z a-z 0-9 . _ -", 2)
    return control_key("tenant", tenant)
