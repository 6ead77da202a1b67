from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.render.declared import Declared, read_declared
from schemas.deployment import DeploymentSettings

EXAMPLE = Path("infra/examples/pools.yaml")
Change = Callable[[dict[str, Any]], None]
Declare = Callable[..., Declared]


@pytest.fixture
def declare(tmp_path: Path) -> Declare:
    """What the example declares, after changes of its YAML and of the tenants'."""

    def declared(change: Change = lambda _: None, *, tenants: str | None = None) -> Declared:
        body = yaml.safe_load(EXAMPLE.read_text())
        change(body)
        pools = tmp_path / "pools.yaml"
        pools.write_text(yaml.safe_dump(body, sort_keys=False))
        who = Path("infra/tenants.yaml")
        if tenants is not None:
            who = tmp_path / "tenants.yaml"
            who.write_text(tenants)
        return read_declared(DeploymentSettings(pools=pools, tenants=who))

    return declared


@pytest.fixture(scope="session")
def example() -> Declared:
    return read_declared(DeploymentSettings(pools=EXAMPLE))
