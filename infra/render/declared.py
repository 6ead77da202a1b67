"""What is rendered: everything that the files of a deployment declare, read once."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from schemas.catalogue import ConfigCatalogue
from schemas.cluster import Cluster
from schemas.deployment import DeploymentSettings
from schemas.errors import CatalogueError
from schemas.pools import Pool, Pools
from schemas.topics import Catalogue


@dataclass(frozen=True, slots=True)
class Declared:
    """`config_files` are the folder's files by name; texts go into the cluster as they stand; `signed` are the tenants
    that must sign."""

    pools: Pools
    catalogue: Catalogue
    configs: ConfigCatalogue
    config_files: Mapping[str, str]
    pools_text: str
    tenants_text: str
    signed: frozenset[str] = frozenset()

    @property
    def cluster(self) -> Cluster:
        return self.pools.cluster

    def configs_of(self, pool: str) -> dict[str, str]:
        """The files of those configurations that have a version in this pool."""
        return {
            f"{name}.yaml": self.config_files[f"{name}.yaml"]
            for name, file in sorted(self.configs.files.items())
            if any(version.pool == pool for version in file.versions.values())
        }

    def pools_of_admission(self) -> str:
        """What admission reads of pools: how they are scaled is none of its business."""
        unread = {"scaling", "replicas_min", "load_seconds", "job_seconds_max", "spot", "resource_claim_template"}
        return str({name: pool.model_dump_json(exclude=unread) for name, pool in self.by_name()})

    def pools_body(self) -> dict[str, Any]:
        """What pools.yaml says, to be said with other numbers."""
        return self.pools.model_dump(mode="json", exclude_unset=True)

    def by_name(self) -> list[tuple[str, Pool]]:
        return sorted(self.pools.pools.items())


def read_declared(settings: DeploymentSettings) -> Declared:
    """Blocks for the files. Raises CatalogueError with the file's name and the first thing wrong in it."""
    pools, tenants, configs = settings.load_pools(), settings.load_tenants(), settings.load_configs()
    try:
        names = sorted([*settings.configs.glob("*.yaml"), *settings.configs.glob("*.lock")])
        return Declared(
            pools=pools,
            catalogue=settings.catalogue(tenants),
            configs=configs,
            config_files={path.name: path.read_text(encoding="utf-8") for path in names},
            pools_text=settings.pools.read_text(encoding="utf-8"),
            tenants_text=settings.tenants.read_text(encoding="utf-8"),
            signed=frozenset(name for name, quota in tenants.tenants.items() if quota.signed),
        )
    except (OSError, UnicodeDecodeError) as error:
        raise CatalogueError(f"what is declared cannot be read: {error}") from error
