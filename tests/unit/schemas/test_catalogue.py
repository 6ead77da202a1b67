"""Configurations from files, and the lock that keeps published ones from changing."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from schemas.catalogue import ConfigProblem, load_configs
from schemas.config import GenerationConfig
from schemas.errors import CatalogueError
from schemas.lock import LOCK_NAME, check_lock, write_lock
from schemas.request import ConfigRef
from tests.unit.schemas.test_config import BODY

VERSION = {key: value for key, value in BODY.items() if key not in ("name", "version")}


def write(folder: Path, name: str, versions: dict[int, Any], **more: Any) -> None:
    file = {"name": name, "channels": {"stable": min(versions)}, "versions": versions, **more}
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(file), encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, "sketch", {1: VERSION, 2: {**VERSION, "steps": 8}, 3: {**VERSION, "steps": 9, "retired": True}})
    write(tmp_path, "poster", {1: {**VERSION, "width": 128}})
    return tmp_path


@pytest.mark.parametrize(
    ("ref", "label"),
    [
        (ConfigRef(name="sketch"), "sketch@1"),
        (ConfigRef(name="sketch", channel="stable"), "sketch@1"),
        (ConfigRef(name="sketch", version=2), "sketch@2"),
        (ConfigRef(name="poster"), "poster@1"),
    ],
)
def test_a_reference_finds_its_version(folder: Path, ref: ConfigRef, label: str) -> None:
    found = load_configs(folder).resolve(ref, b"blue/1")
    assert isinstance(found, GenerationConfig)
    assert found.label == label


@pytest.mark.parametrize(
    ("ref", "code", "sentence"),
    [
        (ConfigRef(name="oil"), "unknown_config", "known are: poster, sketch"),
        (ConfigRef(name="sketch", channel="canary"), "unknown_config", "it has: stable"),
        (ConfigRef(name="sketch", version=9), "config_version_mismatch", "it has: 1, 2, 3"),
        (ConfigRef(name="sketch", version=3), "config_retired", "sketch@3 is retired; in use are: sketch@1, sketch@2"),
    ],
)
def test_a_reference_to_nothing_says_what_there_is(folder: Path, ref: ConfigRef, code: str, sentence: str) -> None:
    problem = load_configs(folder).resolve(ref, b"blue/1")
    assert isinstance(problem, ConfigProblem)
    assert problem.code == code
    assert sentence in problem.message


def test_a_channel_may_lead_to_what_is_retired_and_is_not_the_cure(tmp_path: Path) -> None:
    write(tmp_path, "etching", {1: {**VERSION, "retired": True}})
    problem = load_configs(tmp_path).resolve(ConfigRef(name="etching"), b"blue/1")
    assert isinstance(problem, ConfigProblem)
    assert problem.message.endswith("etching@1 is retired; in use are: none of its versions")


def test_a_folder_must_hold_configs(tmp_path: Path) -> None:
    with pytest.raises(CatalogueError, match="no config files"):
        load_configs(tmp_path)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "is no YAML"),
        ("name: sketch", "channels"),
        ("[]", "broken.yaml"),
    ],
)
def test_a_broken_file_is_named(folder: Path, text: str, sentence: str) -> None:
    (folder / "broken.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(CatalogueError, match=sentence):
        load_configs(folder)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"vae_tiling": 65}, "should be a multiple of 64$"),
        ({"vae_tiling": None}, "should be a valid"),
        ({"offload": "model"}, r"broken.yaml: versions.1: offload: model needs batching: whole"),
    ],
)
def test_what_cannot_be_made_is_told_in_one_sentence(folder: Path, changes: dict[str, Any], sentence: str) -> None:
    write(folder, "broken", {1: {**VERSION, **changes}})
    with pytest.raises(CatalogueError, match=sentence):
        load_configs(folder)


def test_a_file_is_named_after_its_config(folder: Path) -> None:
    (folder / "poster.yaml").rename(folder / "placard.yaml")
    with pytest.raises(CatalogueError, match="name the file after its config"):
        load_configs(folder)


def test_a_published_version_keeps_its_pixels(folder: Path) -> None:
    assert write_lock(load_configs(folder), folder) == []
    assert check_lock(load_configs(folder), folder) == []
    write(folder, "poster", {1: {**VERSION, "width": 256}})
    changed = load_configs(folder)
    assert len(check_lock(changed, folder)) == 1
    assert "poster@1 is published and its pixels changed" in check_lock(changed, folder)[0]
    before = (folder / LOCK_NAME).read_text(encoding="utf-8")
    assert write_lock(changed, folder) != []
    assert (folder / LOCK_NAME).read_text(encoding="utf-8") == before


def test_a_published_version_does_not_vanish(folder: Path) -> None:
    write_lock(load_configs(folder), folder)
    write(folder, "sketch", {1: VERSION})
    problems = check_lock(load_configs(folder), folder)
    assert [problem.split()[0] for problem in problems] == ["sketch@2", "sketch@3"]


def test_a_new_version_must_be_locked_and_may_be(folder: Path) -> None:
    write_lock(load_configs(folder), folder)
    write(folder, "poster", {1: {**VERSION, "width": 128}, 2: {**VERSION, "width": 256}})
    grown = load_configs(folder)
    assert "poster@2 is not in configs.lock yet" in check_lock(grown, folder)[0]
    assert write_lock(grown, folder) == []
    locked = json.loads((folder / LOCK_NAME).read_text(encoding="utf-8"))
    assert set(locked) == {"poster@1", "poster@2", "sketch@1", "sketch@2", "sketch@3"}


def test_what_changes_no_pixel_may_change(folder: Path) -> None:
    write_lock(load_configs(folder), folder)
    write(folder, "poster", {1: {**VERSION, "width": 128, "retired": True, "max_images": 2}})
    assert check_lock(load_configs(folder), folder) == []
