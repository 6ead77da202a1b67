"""What becomes of requests when configurations change."""

from schemas.catalogue import ConfigCatalogue
from schemas.effects import effects, outcome, outcomes, spelt
from schemas.request import ConfigRef
from tests.unit.schemas.test_config_file import file


def test_nothing_becomes_of_what_stays() -> None:
    assert effects(ConfigCatalogue([file()]), ConfigCatalogue([file()]), "sketch") == []
    assert effects(ConfigCatalogue([]), ConfigCatalogue([]), "sketch") == []


def test_every_reference_that_leads_elsewhere_is_told() -> None:
    before = ConfigCatalogue([file(channels={"stable": 1, "old": 3})])
    after = ConfigCatalogue([file(channels={"stable": {1: 19, 2: 1}}, retired=(3,), compatible={9: 2})])
    assert effects(before, after, "sketch") == [
        "sketch:old gets nothing (unknown_config), instead of sketch@3",
        "sketch:stable gets sketch@1 95 %, sketch@2 5 %, instead of sketch@1",
        "sketch@3 gets nothing (config_retired), instead of sketch@3",
        "sketch@9 gets sketch@2, instead of nothing (config_version_mismatch)",
    ]
    assert effects(before, after, "poster") == []


def test_a_config_that_comes_is_told_of() -> None:
    assert effects(ConfigCatalogue([]), ConfigCatalogue([file()]), "sketch") == [
        "sketch:stable gets sketch@1, instead of nothing (unknown_config)",
        *(f"sketch@{n} gets sketch@{n}, instead of nothing (unknown_config)" for n in (1, 2, 3)),
    ]


def test_all_that_a_config_leads_to() -> None:
    catalogue = ConfigCatalogue([file(channels={"stable": 2}, retired=(3,))])
    assert outcomes(catalogue, "sketch") == [
        "sketch:stable gets sketch@2",
        "sketch@1 gets sketch@1",
        "sketch@2 gets sketch@2",
        "sketch@3 gets nothing (config_retired)",
    ]


def test_a_version_of_no_weight_has_no_share() -> None:
    catalogue = ConfigCatalogue([file(channels={"stable": {1: 2, 2: 0, 3: 1}})])
    assert outcome(catalogue, ConfigRef(name="sketch")) == "sketch@1 66.7 %, sketch@3 33.3 %"


def test_a_reference_is_spelt_as_a_command_takes_it() -> None:
    refs = ConfigRef(name="a"), ConfigRef(name="a", version=2), ConfigRef(name="a", channel="next")
    assert [spelt(ref) for ref in refs] == ["a", "a@2", "a:next"]
