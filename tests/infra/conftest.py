"""One rendering of the examples for all tests here. Each test breaks a copy of it in one place."""

import shutil
from pathlib import Path

import pytest

from tests.infra.rendered import DECLARED, Rendered, render


@pytest.fixture(scope="session")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Rendered:
    folder = tmp_path_factory.mktemp("rendered") / "examples"
    assert render(DECLARED["examples"], folder) is None
    return Rendered(folder)


@pytest.fixture
def rendered(pristine: Rendered, tmp_path: Path) -> Rendered:
    """A copy, to be broken."""
    return Rendered(Path(shutil.copytree(pristine.folder, tmp_path / "rendered")))
