"""`kiln infra`: what is declared, as Kubernetes takes it."""

from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from infra.observe.settings import AlertSettings
from infra.render.declared import read_declared
from infra.render.documents import documents
from infra.render.folder import write_folder
from infra.render.helm import CHART, helm
from infra.render.kustomize import kustomize
from infra.render.monitors import known, plain
from schemas.deployment import DeploymentSettings
from schemas.errors import CatalogueError, CommandError
from schemas.settings import read_settings

app = typer.Typer(help="Kubernetes: everything that runs, rendered from what is declared.", no_args_is_help=True)

_out = Console()


@app.callback()
def _group() -> None:
    """Keeps `render` a sub-command."""


@app.command()
def render(
    pools: Annotated[Path | None, typer.Option(help="The pools; KILN_POOLS if absent.")] = None,
    out: Annotated[Path, typer.Option(help="The folder that is written anew.")] = Path(".kiln/rendered"),
) -> None:
    """Write Kustomize base and overlays, a Helm chart, alert rules and dashboards. No cluster is asked."""
    settings = read_settings(DeploymentSettings, **({} if pools is None else {"pools": pools}))
    try:
        declared = read_declared(settings)
        found = documents(declared, read_settings(AlertSettings))
    except CatalogueError as error:
        raise CommandError(str(error)) from error
    applied = known(declared, found)
    files = {f"kustomize/{path}": text for path, text in kustomize(declared, applied).items()}
    files |= {f"helm/{CHART}/{path}": text for path, text in helm(declared, applied, version("promptkiln")).items()}
    files |= plain(found)
    write_folder(out, files)
    objects = sum(map(len, applied.values()))
    _out.print(f"{objects} objects in {out}; try kubectl kustomize {out}/kustomize/base", soft_wrap=True)
