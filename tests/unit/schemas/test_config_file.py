"""What leads to a version of a configuration."""

from typing import Any

import pytest
from pydantic import ValidationError

from schemas.codec import decode_object, encode
from schemas.config_file import ConfigFile
from tests.unit.schemas.test_config import BODY

VERSION = {key: value for key, value in BODY.items() if key not in ("name", "version")}


def file(*, retired: tuple[int, ...] = (), **more: Any) -> ConfigFile:
    versions = {number: {**VERSION, "retired": number in retired} for number in (1, 2, 3)}
    return ConfigFile.model_validate({"name": "sketch", "channels": {"stable": 1}, "versions": versions, **more})


def test_it_reads_what_it_has_written() -> None:
    whole = file(
        description="four steps",
        channels={"stable": {1: 95, 2: 5}, "next": 2},
        compatible={1: 2, 9: 3},
        degrades_to={2: "sketch@1", 3: "poster@1"},
    )
    assert ConfigFile.model_validate(decode_object(encode(whole))) == whole


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"channels": {"stable": {1: 1, 4: 1}}}, "channel 'stable' points to version 4, which is not in the file"),
        ({"channels": {"stable": {1: 0}}}, "no version has a weight above 0"),
        ({"channels": {"a/b": 1}}, "pattern"),
        ({"compatible": {9: 4}}, "compatible: 9 leads to version 4, which is not in the file"),
        ({"compatible": {1: 1}}, "compatible: 1 leads round in a circle"),
        ({"compatible": {9: 1, 1: 2, 2: 1}}, "compatible: 9 leads round in a circle"),
        ({"degrades_to": {4: "sketch@1"}}, "degrades_to names version 4, which is not in the file"),
        ({"degrades_to": {1: "sketch"}}, "pattern"),
        ({"versions": {}}, "versions"),
    ],
)
def test_what_leads_nowhere_is_refused(wrong: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence):
        file(**wrong)


@pytest.mark.parametrize(
    ("retired", "asked", "taken"),
    [
        ((), 1, 1),  # in use: what is declared compatible with it is not looked at yet
        ((1,), 1, 2),
        ((1, 2), 1, 3),
        ((1, 2, 3), 1, None),
        ((), 9, 3),
        ((), 8, None),
        ((3,), 3, None),
    ],
)
def test_a_compatible_version_takes_what_is_gone(retired: tuple[int, ...], asked: int, taken: int | None) -> None:
    found = file(retired=retired, compatible={1: 2, 2: 3, 9: 3}).in_use(asked)
    assert (found.version if found else None) == taken
