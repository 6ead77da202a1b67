"""Where this deployment's declarations are, and what they say: topics, pools, tenants, configurations."""

from pathlib import Path

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from schemas.catalogue import ConfigCatalogue, load_configs
from schemas.errors import CatalogueError
from schemas.pools import Pools, load_pools
from schemas.settings import setting_refused
from schemas.tenants import Tenants, load_tenants
from schemas.topics import Catalogue, TopicSettings


class DeploymentSettings(BaseSettings):
    """The files that every process of a deployment reads alike."""

    model_config = SettingsConfigDict(env_prefix="KILN_", frozen=True)

    configs: Path = Field(default=Path("infra/configs"), description="Folder of configurations and their lock.")
    pools: Path = Field(default=Path("infra/pools.yaml"), description="The pools of GPU consumers.")
    tenants: Path = Field(default=Path("infra/tenants.yaml"), description="The tenants and their quotas.")

    def load_pools(self) -> Pools:
        return load_pools(self.pools)

    def load_tenants(self) -> Tenants:
        return load_tenants(self.tenants)

    def load_configs(self) -> ConfigCatalogue:
        return load_configs(self.configs)

    def catalogue(self, tenants: Tenants | None = None) -> Catalogue:
        """The catalogue of topics, those of `tenants` among them. Raises CatalogueError where a setting is refused or
        the pools cannot be read."""
        try:
            settings = TopicSettings()
        except ValidationError as error:
            raise CatalogueError(setting_refused(error, TopicSettings)) from error
        return Catalogue(settings, self.load_pools(), () if tenants is None else tenants.own_topics)
