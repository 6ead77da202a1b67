"""What each family of models was made for."""

from typing import Any, get_args

import pytest

from gpu_consumer.models.families import FAMILIES
from schemas.config import VIDEO_FAMILIES, Family, GenerationConfig
from schemas.families import FAMILY_LIMITS, doubts


def config(**changes: Any) -> GenerationConfig:
    return GenerationConfig.model_validate(
        {
            "name": "sketch", "version": 1, "family": "sd15", "model": {"name": "m", "digest": "sha256:" + "0" * 64},
            "steps": 4, "guidance_scale": 5.0, "width": 512, "height": 512,
            "price": {"gpu_seconds": 1, "vram_bytes": 1}, **changes,
        }
    )  # fmt: skip


def test_every_family_is_there_and_agrees_with_what_runs_it() -> None:
    assert set(FAMILY_LIMITS) == set(get_args(Family)) == set(FAMILIES)
    for name, limits in FAMILY_LIMITS.items():
        assert limits.tokens_max == FAMILIES[name].tokens_max
        assert (limits.frames_max > 1) == (name in VIDEO_FAMILIES)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"width": 768, "height": 768},
        {"width": 64, "height": 64},
        {"family": "sdxl", "width": 1536, "height": 1024},
        {"family": "animatediff", "image_format": "mp4", "frames": 32},
    ],
)
def test_what_a_family_was_made_for_leaves_no_doubt(changes: dict[str, Any]) -> None:
    assert doubts(config(**changes)) == []


def test_what_it_was_not_made_for_is_said() -> None:
    (large,) = doubts(config(width=1024, height=1024))
    assert large.startswith("sketch@1: 1024 x 1024 has 4.0 times the pixels that the family sd15 was made for")
    (long,) = doubts(config(family="animatediff", image_format="mp4", frames=64))
    assert "made for 32 frames at most, not 64" in long
