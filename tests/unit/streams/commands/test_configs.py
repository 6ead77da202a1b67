"""What `kiln configs` says of files alone."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import yaml

from tests.kiln import Done, Kiln

Configs = Callable[..., Done]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for path in Path("infra/configs").iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


@pytest.fixture
def kiln(folder: Path) -> Configs:
    """Runs `kiln configs` in this process on a copy of the files. There is no broker."""
    home, configs = str(folder / "home"), str(folder)
    environment = {"KILN_HOME": home, "KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1", "KILN_CONFIGS": configs}
    return partial(Kiln(environment).inside, "configs")


def change(folder: Path, name: str, **fields: object) -> None:
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | fields))


def test_what_is_sound_is_said_to_be(kiln: Configs) -> None:
    said = kiln("check")
    assert said.code == 0, said
    assert "every published version is as it was" in said.out


@pytest.mark.parametrize(
    ("name", "fields", "sentence"),
    [
        ("painting", {"degrades_to": {2: "nothing@1"}}, "painting@2 degrades to nothing@1, which does not exist"),
        ("painting", {"degrades_to": {2: "poster@1"}}, "painting@2 degrades to poster@1, which is not cheaper"),
        ("painting", {"channels": {"previous": 1}}, "painting has no channel 'stable'"),
        ("painting", {"channels": {"stable": {1: 0, 2: 0}}}, "no version has a weight above 0"),
        ("painting", {"compatible": {1: 3}}, "compatible: 1 leads to version 3, which is not in the file"),
    ],
)
def test_what_does_not_fit_is_refused(
    kiln: Configs, folder: Path, name: str, fields: dict[str, object], sentence: str
) -> None:
    change(folder, name, **fields)
    said = kiln("check")
    assert said.code == 1
    assert sentence in said.err
    if "degrades" in sentence or "stable" in sentence:
        assert sentence in kiln("publish", name).err


def test_a_pool_that_is_not_declared_is_refused(kiln: Configs, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pools = folder / "pools"
    pools.write_text("pools: {big: {gpu_product: H200, vram_bytes: 1073741824, price_usd_per_hour: 1}}")
    monkeypatch.setenv("KILN_POOLS", str(pools))
    assert "sketch@1 runs in pool 'default', which is not declared; known are: big" in kiln("check").err


def test_what_a_family_was_not_made_for_is_a_note(kiln: Configs, folder: Path) -> None:
    sketch = yaml.safe_load((folder / "sketch.yaml").read_text())
    sketch["versions"][2] = {**sketch["versions"][1], "width": 2048, "height": 2048}
    (folder / "sketch.yaml").write_text(yaml.safe_dump(sketch))
    assert "sketch@2 is not in configs.lock yet" in kiln("check").err
    assert kiln("lock").code == 0
    said = kiln("check")
    assert said.code == 0, said
    assert "note: sketch@2: 2048 x 2048" in said.out


def test_a_list_says_what_leads_where(kiln: Configs, folder: Path) -> None:
    change(folder, "painting", channels={"stable": {1: 1, 2: 3}}, compatible={9: 1}, degrades_to={2: "painting@1"})
    rows = [line for line in kiln("list").out.splitlines() if "painting@" in line]
    assert "stable 25 %; compatible with 9" in rows[0]
    assert "stable 75 %; degrades to painting@1" in rows[1]


def test_one_is_shown_and_of_several_their_shares(kiln: Configs, folder: Path) -> None:
    assert json.loads(kiln("show", "painting").out)["version"] == 2
    assert json.loads(kiln("show", "painting@1").out)["version"] == 1
    assert json.loads(kiln("show", "painting:previous").out)["version"] == 1
    change(folder, "painting", channels={"stable": {1: 1, 2: 3}})
    shown = json.loads(kiln("show", "painting:stable").out)
    assert [(each["version"], each["share"]) for each in shown] == [(1, 0.25), (2, 0.75)]
    assert all(len(each["config_hash"]) == 64 for each in shown)


def test_two_are_compared_field_by_field(kiln: Configs) -> None:
    said = kiln("diff", "painting@1", "painting:stable")
    assert said.code == 0
    rows = [line.split() for line in said.out.splitlines() if "│" in line]
    assert ["│", "steps", "│", "6", "│", "8", "│", "yes", "│"] in rows
    assert ["│", "price.gpu_seconds", "│", "0.3", "│", "0.4", "│", "│"] in rows
    assert "the same model stays loaded" in said.out
    assert "price 0.3 -> 0.4 GPU-seconds a picture: x 1.33" in said.out
    assert "another model: a swap" in kiln("diff", "painting", "shapes").out
    assert "the same pixels" in kiln("diff", "painting@2", "painting").out


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("show", "painting@9"), 1, "has no version 9; it has: 1, 2"),
        (("show", "painting:next"), 1, "has no channel 'next'; it has: previous, stable"),
        (("diff", "painting@one", "sketch"), 2, "names no version; write NAME@NUMBER"),
        (("diff", "nothing"), 1, "has no config 'nothing'; it has: moving-shapes, painting"),
        (("publish", "nothing"), 1, "has no config 'nothing'; it has: moving-shapes, painting"),
        (("retire", "painting"), 2, "names no version; write NAME@NUMBER"),
        (("channel", "painting", "1"), 2, "names no channel; write NAME:CHANNEL"),
        (("channel", "painting:stable"), 2, "give the versions of the channel, or --undo"),
        (("channel", "painting:stable", "1", "--undo"), 2, "give the versions of the channel, or --undo"),
        (("channel", "painting:stable", "1=2", "1=3"), 2, "version 1 stands twice"),
        (("channel", "painting:stable", "1=much"), 2, "write VERSION=WEIGHT"),
        (("channel", "painting:stable", "one=1"), 2, "write VERSION=WEIGHT"),
        (("channel", "painting:stable", "1=-1"), 2, "write VERSION=WEIGHT"),
        (("channel", "painting:stable", "1=0", "2=0"), 2, "no version has a weight above 0"),
        (("retire", "painting@1", "--reason", "x" * 501), 2, "a reason of 501 characters; write at most 500"),
        (("publish", "painting", "--reason", "x" * 501), 2, "a reason of 501 characters; write at most 500"),
        (("channel", "painting:stable", "1", "--reason", "x" * 501), 2, "a reason of 501 characters"),
    ],
    ids=lambda each: " ".join(each)[:60] if isinstance(each, tuple) else "",
)
def test_a_wrong_wish_is_a_sentence(kiln: Configs, arguments: tuple[str, ...], code: int, sentence: str) -> None:
    said = kiln(*arguments)
    assert said.code == code, said
    assert sentence in said.err
    assert len(said.err.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("publish", "painting"),
        ("publish", "painting", "--undo"),
        ("retire", "painting@1"),
        ("channel", "painting:stable", "1"),
        ("diff", "painting"),
        ("list", "--live"),
        ("show", "painting", "--live"),
    ],
    ids=" ".join,
)
def test_what_needs_control_says_that_there_is_no_broker(kiln: Configs, arguments: tuple[str, ...]) -> None:
    said = kiln(*arguments)
    assert said.code == 1
    assert "set KAFKA_BOOTSTRAP_SERVERS" in said.err


def test_a_retired_version_can_still_be_compared(kiln: Configs, folder: Path) -> None:
    painting = yaml.safe_load((folder / "painting.yaml").read_text())
    painting["versions"][1]["retired"] = True
    (folder / "painting.yaml").write_text(yaml.safe_dump(painting))
    assert "painting@1 is retired" in kiln("show", "painting@1").err
    assert kiln("diff", "painting@1", "painting@2").code == 0
