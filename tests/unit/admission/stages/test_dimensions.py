"""Sizes and lengths that a deployment does not draw, whatever a config says."""

from typing import Any

import pytest

from admission.decide import decide
from admission.settings import AdmissionLimits
from admission.verdict import Verdict
from admission.world import World
from schemas.catalogue import ConfigCatalogue
from tests.unit.admission.scene import (
    NOW_MS,
    accepted,
    arrival,
    config_file,
    fresh_state,
    make_world,
    rejected,
    request,
)

VIDEO = {"family": "animatediff", "image_format": "mp4", "frames": 16, "frames_per_second": 8}


def decided(config: dict[str, Any], *, images: int = 1, **limits: Any) -> Verdict:
    base = make_world()
    world = World(
        catalogue=base.catalogue,
        configs=ConfigCatalogue([config_file("sketch", max_images=16, **config)]),
        tenants=base.tenants,
        work_partitions=base.work_partitions,
        limits=AdmissionLimits(**limits),
    )
    return decide(arrival(request(images=images)), fresh_state(), world, NOW_MS)


@pytest.mark.parametrize(
    ("config", "limits", "message"),
    [
        ({"width": 512, "height": 520}, {"pixels_max": 512 * 512}, "512 x 520 pixels, 266240 in all, and 262144 are"),
        ({"width": 512, "height": 520}, {"family_pixels_factor_max": 1.0}, "262144 are allowed of the family sd15"),
        (VIDEO, {"frames_max": 15}, "makes 16 frames, and 15 are allowed"),
        (VIDEO, {"video_seconds_max": 1.5}, "makes a video of 2 s, and 1.5 s are allowed"),
    ],
)  # fmt: skip
def test_a_config_beyond_a_limit_is_refused(config: dict[str, Any], limits: dict[str, Any], message: str) -> None:
    accepted(decided(config))
    result = rejected(decided(config, **limits))
    assert (result.code, result.field) == ("invalid_dimensions", "config")
    assert message in result.message
    assert result.message.startswith("config sketch@1 ")
    assert result.message.endswith("; choose another config")


def test_at_a_limit_it_enters() -> None:
    accepted(decided({"width": 512, "height": 512}, pixels_max=512 * 512, family_pixels_factor_max=1.0))
    accepted(decided(VIDEO, frames_max=16, video_seconds_max=2.0))


def test_all_pictures_of_a_request_are_counted_together() -> None:
    config = {"width": 512, "height": 512}
    budget = {"request_pixels_max": 4 * 512 * 512}
    accepted(decided(config, images=4, **budget))
    result = rejected(decided(config, images=5, **budget))
    assert (result.code, result.field) == ("invalid_dimensions", "images")
    assert "5 images of config sketch@1: 1310720 pixels" in result.message
    assert result.message.endswith("; ask for at most 4")


def test_a_video_alone_above_the_budget_asks_for_another_config() -> None:
    result = rejected(decided({**VIDEO, "width": 512, "height": 512}, request_pixels_max=512 * 512))
    assert result.field == "config"
    assert result.message.endswith("; choose a smaller config")
