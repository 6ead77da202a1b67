"""Configurations from files, and the lock that keeps published ones from changing."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from schemas.catalogue import ConfigCatalogue, ConfigProblem, load_configs
from schemas.config import GenerationConfig
from schemas.config_file import ConfigFile
from schemas.errors import CatalogueError
from schemas.lock import LOCK_NAME, check_lock, write_lock
from schemas.request import ConfigRef
from tests.unit.schemas.test_config_file import VERSION, file


def write(folder: Path, name: str, versions: dict[int, Any], **more: Any) -> None:
    body = {"name": name, "channels": {"stable": min(versions)}, "versions": versions, **more}
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(body), encoding="utf-8")


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


def weighted(channels: dict[str, Any], *, retired: tuple[int, ...] = (), **more: Any) -> ConfigCatalogue:
    return ConfigCatalogue([file(channels=channels, retired=retired, **more)])


def got(catalogue: ConfigCatalogue, ref: ConfigRef) -> Counter[str]:
    labels: Counter[str] = Counter()
    for n in range(500):
        found = catalogue.resolve(ref, f"blue/{n}".encode())
        labels[found.label if isinstance(found, GenerationConfig) else found.code] += 1
    return labels


STABLE = ConfigRef(name="sketch")


def test_a_channel_splits_by_the_name_of_the_request() -> None:
    labels = got(weighted({"stable": {1: 3, 2: 1, 3: 0}}), STABLE)
    assert set(labels) == {"sketch@1", "sketch@2"}
    assert 80 < labels["sketch@2"] < 170, "a quarter of 500; five deviations are 48"


def test_a_retired_canary_leaves_its_share_to_the_rest() -> None:
    assert got(weighted({"stable": {1: 1, 2: 1, 3: 1}}, retired=(2,)), STABLE).keys() == {"sketch@1", "sketch@3"}
    assert got(weighted({"stable": {1: 1, 2: 1}}, retired=(1, 2)), STABLE) == {"config_retired": 500}


def test_a_declared_compatible_version_takes_the_share_of_a_retired_one() -> None:
    before = weighted({"stable": {1: 1, 2: 1}})
    after = weighted({"stable": {1: 1, 2: 1}}, retired=(2,), compatible={2: 3})
    assert got(after, STABLE)["sketch@3"] == got(before, STABLE)["sketch@2"]


def test_a_mismatch_is_refused_unless_another_version_is_declared_compatible() -> None:
    nine, two = ConfigRef(name="sketch", version=9), ConfigRef(name="sketch", version=2)
    declared = weighted({"stable": 1}, retired=(2,), compatible={9: 2, 2: 3})
    assert got(declared, nine) == {"sketch@3": 500}
    assert got(declared, two) == {"sketch@3": 500}
    undeclared = weighted({"stable": 1}, retired=(2,))
    assert got(undeclared, nine) == {"config_version_mismatch": 500}
    assert got(undeclared, two) == {"config_retired": 500}


def test_all_that_a_reference_may_come_to() -> None:
    choices = weighted({"stable": {1: 3, 2: 0, 3: 1}}).choices(STABLE)
    assert not isinstance(choices, ConfigProblem)
    assert [(each.config.label, each.weight) for each in choices] == [("sketch@1", 3), ("sketch@3", 1)]


def test_a_sibling_stands_in_while_it_is_cheaper_and_in_use() -> None:
    def priced(name: str, gpu_seconds: float, **more: Any) -> ConfigFile:
        body = {**VERSION, "price": {"gpu_seconds": gpu_seconds, "vram_bytes": 1 << 20}, **more}
        return ConfigFile.model_validate(
            {"name": name, "channels": {}, "degrades_to": {1: "cheap@1"}, "versions": {1: body}}
        )

    def sibling(*files: ConfigFile) -> str | None:
        catalogue = ConfigCatalogue(files)
        found = catalogue.sibling(catalogue.files["dear"].versions[1])
        return None if found is None else found.label

    dear = priced("dear", 2.0)
    assert sibling(dear, priced("cheap", 1.9)) == "cheap@1"
    assert sibling(dear) is None
    assert sibling(dear, priced("cheap", 2.0)) is None
    assert sibling(dear, priced("cheap", 1.0, retired=True)) is None
    assert ConfigCatalogue([]).sibling(dear.versions[1]) is None


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


def test_of_many_configurations_an_unknown_name_is_told_some() -> None:
    files = [{"name": f"c{n:03}", "channels": {"stable": 1}, "versions": {1: VERSION}} for n in reversed(range(100))]
    catalogue = ConfigCatalogue(map(ConfigFile.model_validate, files))
    problem = catalogue.resolve(ConfigRef(name="oil"), b"me/1")
    assert isinstance(problem, ConfigProblem)
    assert problem.message.endswith("known are: " + ", ".join(f"c{n:03}" for n in range(20)) + " and 80 more")
