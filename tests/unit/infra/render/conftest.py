from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.render.declared import Declared, read_declared
from infra.render.documents import documents
from infra.render.manifest import Manifest
from schemas.deployment import DeploymentSettings

EXAMPLE = Path("infra/examples/pools.yaml")
Change = Callable[[dict[str, Any]], object]
Declare = Callable[..., Declared]
Found = Mapping[str, list[Manifest]]


@pytest.fixture(scope="session")
def example() -> Declared:
    return read_declared(DeploymentSettings(pools=EXAMPLE))


@pytest.fixture(scope="session")
def found(example: Declared) -> Found:
    """What is rendered of the example. Not to be changed."""
    return documents(example)


@pytest.fixture
def declare(tmp_path: Path, example: Declared) -> Declare:
    """What the example declares, after changes of its YAML and of the tenants'."""

    def declared(change: Change = lambda _: None, *, tenants: str | None = None) -> Declared:
        body = yaml.safe_load(example.pools_text)
        change(body)
        pools = tmp_path / "pools.yaml"
        pools.write_text(yaml.safe_dump(body, sort_keys=False))
        who = tmp_path / "tenants.yaml"
        who.write_text(example.tenants_text if tenants is None else tenants)
        settings = DeploymentSettings(pools=pools, tenants=who)
        return replace(read_declared(settings), configs=example.configs, config_files=example.config_files)

    return declared
