"""What the control topic comes to."""

import re
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel

from schemas.codec import encode
from schemas.config_file import ConfigFile
from schemas.control import (
    Channel,
    Drop,
    Pause,
    Placement,
    PublishConfig,
    PublishedVersion,
    Retire,
    SetQuota,
    Subject,
    control_key,
)
from schemas.stops import Dropped
from schemas.tenants import Quota
from streams.control import Controls
from tests.unit.admission.scene import NOW_MS, config_file

POOL = Subject("pool", "default")
OFFSETS = count()


def record(key: bytes | None, said: BaseModel | bytes | None, at_ms: int = NOW_MS) -> Any:
    value = encode(said) if isinstance(said, BaseModel) else said
    return SimpleNamespace(key=key, value=value, timestamp=at_ms, offset=next(OFFSETS))


def placement(term: int) -> Placement:
    return Placement.model_validate({"term": term, "partitions": 8, "models": {}})


def test_every_subject_has_its_place() -> None:
    controls = Controls()
    sketch = config_file("sketch")
    for key, said in (
        (control_key("pause", "pool", "default"), Pause(reason="the card is hot")),
        (control_key("drop", "config", "sketch@1"), Drop()),
        (control_key("channel", "sketch", "stable"), Channel(versions={1: 9, 2: 1})),
        (control_key("retire", "sketch", "1"), Retire()),
        (control_key("version", "sketch", "1", sketch.versions[1].config_hash), PublishedVersion()),
        (control_key("config", "sketch"), PublishConfig(file=sketch)),
        (control_key("tenant", "alice"), SetQuota(quota=Quota(per_second=1, burst=5))),
        (control_key("placement", "default"), placement(3)),
    ):
        assert controls.fold(record(key, said)) is None
    assert controls.paused == {POOL: Pause(reason="the card is hot")}
    assert controls.dropped == {Subject("config", "sketch@1"): Dropped(NOW_MS)}
    assert controls.channels == {("sketch", "stable"): Channel(versions={1: 9, 2: 1})}
    assert set(controls.retired) == {"sketch@1"}
    assert controls.configs == {"sketch": sketch}
    assert [*controls.versions] == [("sketch@1", sketch.versions[1].config_hash)]
    assert controls.quotas == {"alice": Quota(per_second=1, burst=5)}
    assert controls.placements == {"default": placement(3)}
    assert controls.changes == 8


@pytest.mark.parametrize(
    ("key", "said", "where"),
    [
        (control_key("pause", "pool", "default"), Pause(), "paused"),
        (control_key("drop", "tenant", "alice"), Drop(), "dropped"),
        (control_key("channel", "sketch", "stable"), Channel(versions={1: 1}), "channels"),
        (control_key("retire", "sketch", "1"), Retire(), "retired"),
        (control_key("config", "sketch"), PublishConfig(file=config_file("sketch")), "configs"),
        (control_key("tenant", "alice"), SetQuota(quota=Quota(per_second=1, burst=5)), "quotas"),
        (control_key("placement", "default"), placement(1), "placements"),
    ],
)
def test_a_tombstone_takes_it_back(key: bytes, said: BaseModel, where: str) -> None:
    controls = Controls()
    controls.fold(record(key, said))
    assert len(getattr(controls, where)) == 1
    changes = controls.changes
    assert controls.fold(record(key, None)) is None
    assert getattr(controls, where) == {}
    assert controls.changes == changes + 1
    controls.fold(record(key, None))
    assert controls.changes == changes + 1, "nothing was there to take back"


def test_the_newest_drop_counts() -> None:
    controls = Controls()
    for at_ms in (NOW_MS, NOW_MS + 1):
        controls.fold(record(control_key("drop", "pool", "default"), Drop(), at_ms))
    assert controls.dropped == {POOL: Dropped(NOW_MS + 1)}


def test_the_highest_term_of_a_placement_wins() -> None:
    controls = Controls()
    for term in (3, 2, 5, 4):
        assert controls.fold(record(control_key("placement", "default"), placement(term))) is None
    assert controls.placements["default"].term == 5
    assert controls.changes == 2


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        (b"weather/here", b"{}", "no subject of this release"),
        (b"weather/here", None, "no subject of this release"),
        (None, b"{}", "leaves out whom"),
        (b"pause/pool/", b"{}", "leaves out whom"),
        (b"\xff/a", b"{}", "no UTF-8"),
        (b"pause/planet/mars", b"{}", "no subject of this release"),
        (b"pause/pool/default/now", b"{}", "no subject of this release"),
        (b"retire/sketch/newest", b"{}", "no subject of this release"),
        (b"retire/sketch/" + b"1" * 5000, b"{}", "no subject of this release"),  # more digits than Python reads
        (b"retire/sketch/" + b"1" * 5000, None, "no subject of this release"),
        (b"retire/sketch@1/1", b"{}", "no subject of this release"),  # a label is of a name and one version
        (
            b"placement/default",
            b'{"term": 1, "partitions": 4, "models": {}, "configs": {"a": [{"partition": 4, "weight": 1}]}}',
            "partition 4 of 4",
        ),
        (b"pause/pool/default", b'{"schema_version": 2}', "schema_version"),
        (b"pause/pool/default", b"nothing", "no[tn]"),
        (b"channel/sketch/stable", b'{"versions": {}}', "versions"),
    ],
)
def test_what_cannot_be_read_changes_nothing_and_is_said(key: bytes | None, value: bytes | None, sentence: str) -> None:
    controls = Controls()
    controls.fold(record(control_key("pause", "pool", "default"), Pause(reason="stays")))
    controls.fold(record(control_key("channel", "sketch", "stable"), Channel(versions={1: 1})))
    said = controls.fold(record(key, value))
    assert said is not None
    assert said.reason == "unreadable"
    assert re.search(sentence, said.message), said.message
    assert controls.changes == 2
    assert controls.paused == {POOL: Pause(reason="stays")}


def test_a_published_file_is_of_the_name_it_is_published_under() -> None:
    controls = Controls()
    said = controls.fold(record(control_key("config", "sketch"), PublishConfig(file=config_file("painting"))))
    assert said is not None
    assert "holds the config 'painting'" in said.message
    assert controls.configs == {}


def published(controls: Controls, file: ConfigFile) -> str | None:
    said = controls.fold(record(control_key("config", file.name), PublishConfig(file=file)))
    assert said is None or said.reason == "another_hash"
    return None if said is None else said.message


def test_a_published_version_keeps_its_hash() -> None:
    """Neither what files and lock know, nor what was published before, nor what was taken back, is ever another."""
    locked, fresh = config_file("sketch", steps=4), config_file("painting", steps=8)
    controls = Controls({"sketch@1": locked.versions[1].config_hash})
    assert "sketch@1 is published already" in (published(controls, config_file("sketch", steps=5)) or "")
    assert controls.configs == {}
    assert published(controls, locked) is None

    assert published(controls, fresh) is None
    assert "painting@1 is published already" in (published(controls, config_file("painting", steps=9)) or "")
    assert controls.configs["painting"] == fresh
    controls.fold(record(control_key("config", "painting"), None))
    assert "painting@1" in (published(controls, config_file("painting", steps=9)) or "")
    assert "painting" not in controls.configs
    assert published(controls, config_file("painting", steps=8, max_images=2)) is None, "no pixel is another"


def version_record(file: ConfigFile) -> Any:
    (config, *_) = file.versions.values()
    return record(control_key("version", file.name, str(config.version), config.config_hash), PublishedVersion())


def test_a_hash_outlives_the_record_of_its_file() -> None:
    """That one leaves the log once it is taken back; who reads it afterwards must refuse what the others do."""
    controls = Controls()
    assert controls.fold(version_record(config_file("painting", steps=8))) is None
    assert "painting@1 is published already" in (published(controls, config_file("painting", steps=9)) or "")
    assert published(controls, config_file("painting", steps=8)) is None


def test_of_two_hashes_of_a_version_the_first_counts() -> None:
    """Two who publish at once, each from a lock that knows nothing of the other's."""
    controls = Controls()
    assert controls.fold(version_record(config_file("painting", steps=8))) is None
    said = controls.fold(version_record(config_file("painting", steps=9)))
    assert said is not None
    assert said.reason == "another_hash"
    assert published(controls, config_file("painting", steps=8)) is None
    assert len(controls.versions) == 1
