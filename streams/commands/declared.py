"""What a command knows of configurations: what the folder declares, its lock, and what control makes of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from schemas.catalogue import ConfigCatalogue
from schemas.cross_check import channels, pools, siblings
from schemas.deployment import DeploymentSettings
from schemas.errors import CatalogueError, CommandError
from schemas.lock import check_lock, read_lock
from schemas.overlay import InForce, overlay
from streams.commands.common import deployment, run
from streams.control import Controls
from streams.control_log import read_control

Folder = Annotated[
    Path | None, typer.Option("--configs", help="Folder of the YAML files; KILN_CONFIGS if absent.", show_default=False)
]


@dataclass(frozen=True, slots=True)
class Declared:
    """A folder of configurations. Its properties raise CommandError where a file of it is wrong."""

    settings: DeploymentSettings
    catalogue: ConfigCatalogue

    @classmethod
    def of(cls, folder: Path | None) -> "Declared":
        settings = DeploymentSettings(configs=folder) if folder else DeploymentSettings()
        try:
            return cls(settings, settings.load_configs())
        except CatalogueError as error:
            raise CommandError(str(error)) from error

    @property
    def locked(self) -> Mapping[str, str]:
        try:
            return read_lock(self.settings.configs)
        except CatalogueError as error:
            raise CommandError(str(error)) from error

    @property
    def problems(self) -> list[str]:
        """What keeps these files from being published: a sentence each."""
        try:
            found = check_lock(self.catalogue, self.settings.configs)
            declared = self.settings.load_pools().pools
        except CatalogueError as error:
            raise CommandError(str(error)) from error
        return found + siblings(self.catalogue) + channels(self.catalogue) + pools(self.catalogue, declared)

    @property
    def hashes(self) -> Mapping[str, str]:
        """Of every version that is published with these files."""
        return {**self.catalogue.hashes(), **self.locked}

    @staticmethod
    def controls(known: Mapping[str, str]) -> Controls:
        """What control says now; what it says and nobody follows is told on stderr. Asks the cluster."""
        kafka, catalogue = deployment()
        return run(read_control(kafka, catalogue, known, lambda over: typer.echo(f"note: {over.message}", err=True)))

    def with_control(self, controls: Controls) -> InForce:
        return overlay(self.catalogue, controls.configs, controls.channels, controls.retired)
