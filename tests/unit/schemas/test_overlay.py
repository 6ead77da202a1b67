"""What is in force, of files and of control."""

from schemas.catalogue import ConfigCatalogue
from schemas.config_file import ConfigFile
from schemas.control import Channel
from schemas.overlay import overlay
from tests.unit.schemas.test_config_file import VERSION


def config(name: str, *numbers: int, steps: int = 4) -> ConfigFile:
    versions = {number: {**VERSION, "steps": steps} for number in numbers}
    return ConfigFile.model_validate({"name": name, "channels": {"stable": numbers[0]}, "versions": versions})


DECLARED = ConfigCatalogue([config("sketch", 1, 2), config("poster", 1)])


def test_without_a_word_of_control_the_files_stand() -> None:
    assert overlay(DECLARED, {}, {}, ()).configs.files == DECLARED.files


def test_a_published_file_stands_in_for_the_declared_one() -> None:
    published = config("sketch", 1, 2, 3)
    in_force = overlay(DECLARED, {"sketch": published, "oil": config("oil", 1)}, {}, ())
    assert in_force.configs.files["sketch"] is published
    assert set(in_force.configs.files) == {"sketch", "poster", "oil"}
    assert in_force.problems == ()


def test_a_channel_of_control_stands_in_for_that_of_the_file() -> None:
    in_force = overlay(
        DECLARED,
        {},
        {("sketch", "stable"): Channel(versions={1: 9, 2: 1}), ("sketch", "next"): Channel(versions={2: 1})},
        (),
    )
    assert in_force.configs.files["sketch"].channels == {"stable": {1: 9.0, 2: 1.0}, "next": {2: 1.0}}
    assert DECLARED.files["sketch"].channels == {"stable": {1: 1.0}}


def test_a_channel_may_lead_to_a_version_that_is_published() -> None:
    channels = {("sketch", "stable"): Channel(versions={3: 1})}
    assert overlay(DECLARED, {"sketch": config("sketch", 1, 3)}, channels, ()).problems == ()


def test_a_channel_that_leads_nowhere_is_not_followed() -> None:
    channels = {("sketch", "stable"): Channel(versions={1: 1, 3: 1}), ("oil", "stable"): Channel(versions={1: 1})}
    in_force = overlay(DECLARED, {}, channels, ())
    assert in_force.configs.files == DECLARED.files
    assert [problem.split(";")[0] for problem in in_force.problems] == [
        "control's channel sketch:stable leads to version 3, which 'sketch' has not",
        "control has a channel oil:stable, and there is no config 'oil'",
    ]


def test_what_is_retired_keeps_its_hash_and_its_neighbours() -> None:
    in_force = overlay(DECLARED, {"poster": config("poster", 1)}, {}, {"sketch@2", "poster@1", "sketch@7", "oil@1"})
    sketch = in_force.configs.files["sketch"]
    assert [each.retired for each in sketch.versions.values()] == [False, True]
    assert in_force.configs.files["poster"].versions[1].retired
    assert in_force.configs.hashes() == DECLARED.hashes()
    assert in_force.problems == ()
    assert not DECLARED.files["sketch"].versions[2].retired
