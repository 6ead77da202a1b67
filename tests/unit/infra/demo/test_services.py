from pathlib import Path

import pytest

from infra.demo.services import fresh_folder
from schemas.errors import CommandError


def test_removes_what_an_earlier_demo_left(tmp_path: Path) -> None:
    folder = fresh_folder(tmp_path / "demo")
    (folder / "summary.json").write_text("{}")

    assert not (fresh_folder(folder) / "summary.json").exists()


def test_leaves_the_folder_of_somebody_else_alone(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")

    with pytest.raises(CommandError, match="not empty"):
        fresh_folder(tmp_path)

    assert precious.read_text() == "mine"


def test_says_that_a_file_is_no_folder(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("mine")

    with pytest.raises(CommandError, match="no folder to work in"):
        fresh_folder(path)
