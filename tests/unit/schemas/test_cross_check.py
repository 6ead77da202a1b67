"""Whether the configurations of a deployment fit each other."""

from typing import Any

import pytest

from schemas.catalogue import ConfigCatalogue
from schemas.config_file import ConfigFile
from schemas.cross_check import channels, pools, siblings
from tests.unit.schemas.test_config_file import VERSION, file

VIDEO: dict[str, Any] = {"family": "animatediff", "frames": 8, "image_format": "mp4"}


def priced(name: str, gpu_seconds: float, degrades_to: str | None = None, **more: Any) -> ConfigFile:
    body = {**VERSION, "price": {"gpu_seconds": gpu_seconds, "vram_bytes": 1 << 20}, "max_images": 4, **more}
    siblings = {} if degrades_to is None else {1: degrades_to}
    return ConfigFile.model_validate(
        {"name": name, "channels": {"stable": 1}, "degrades_to": siblings, "versions": {1: body}}
    )


@pytest.mark.parametrize(
    ("sibling", "fault"),
    [
        (priced("cheap", 1), None),
        (priced("cheap", 1, pool="other"), None),
        (priced("other", 1), "which does not exist"),
        (priced("cheap", 1, retired=True), "which is retired"),
        (priced("cheap", 2), "which is not cheaper (2 GPU-seconds a picture, not less than 2)"),
        (priced("cheap", 1, **VIDEO), "one of them is a video"),
        (priced("cheap", 1, max_images=1), "which allows 1 image and not 4"),
    ],
)
def test_a_sibling_can_stand_in(sibling: ConfigFile, fault: str | None) -> None:
    problems = siblings(ConfigCatalogue([priced("dear", 2, "cheap@1"), sibling]))
    if fault is None:
        assert problems == []
    else:
        (problem,) = problems
        assert problem.startswith("dear@1 degrades to cheap@1, ")
        assert fault in problem


def test_siblings_in_a_circle_would_have_to_get_cheaper_and_cheaper() -> None:
    circle = [priced("a", 3, "b@1"), priced("b", 2, "c@1"), priced("c", 1, "a@1")]
    (problem,) = siblings(ConfigCatalogue(circle))
    assert problem.startswith("c@1 degrades to a@1, which is not cheaper")


def test_who_is_retired_needs_no_sibling() -> None:
    assert siblings(ConfigCatalogue([priced("dear", 2, "cheap@1", retired=True)])) == []


def test_a_channel_leads_to_something_in_use() -> None:
    assert channels(ConfigCatalogue([file(), file(retired=(1, 2, 3))])) == []
    assert channels(ConfigCatalogue([file(channels={"stable": {1: 1, 2: 1}}, retired=(1,))])) == []
    assert channels(ConfigCatalogue([file(retired=(1,), compatible={1: 2})])) == []
    (problem,) = channels(ConfigCatalogue([file(channels={"stable": {1: 1, 2: 0}}, retired=(1,))]))
    assert problem.startswith("sketch:stable leads to retired versions alone")
    (problem,) = channels(ConfigCatalogue([file(channels={"next": 1})]))
    assert problem.startswith("sketch has no channel 'stable'")


def test_a_pool_is_declared() -> None:
    catalogue = ConfigCatalogue([priced("a", 1, pool="big"), priced("b", 1, pool="gone", retired=True)])
    assert pools(catalogue, {"big", "small"}) == []
    assert pools(catalogue, {"small"}) == ["a@1 runs in pool 'big', which is not declared; known are: small"]
