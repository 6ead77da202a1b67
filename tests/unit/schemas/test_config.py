from typing import Any

import pytest
from pydantic import ValidationError

from schemas.config import PIXEL_FIELDS, PIXEL_OPTIONS, GenerationConfig
from schemas.config_file import ConfigFile

BODY: dict[str, Any] = {
    "name": "sketch",
    "version": 1,
    "family": "sd15",
    "model": {"name": "tiny", "digest": "sha256:" + "a" * 64},
    "steps": 4,
    "guidance_scale": 5.0,
    "width": 64,
    "height": 64,
    "price": {"gpu_seconds": 2.0, "vram_bytes": 1 << 30},
}


def config(**changes: Any) -> GenerationConfig:
    return GenerationConfig.model_validate({**BODY, **changes})


@pytest.mark.parametrize(
    "changes",
    [
        {"family": "sdxl"},
        {"model": {"name": "tiny", "digest": "sha256:" + "b" * 64}},
        {"dtype": "float32"},
        {"scheduler": "euler"},
        {"steps": 5},
        {"guidance_scale": 5.5},
        {"width": 72},
        {"height": 72},
        {"frames_per_second": 9},
        {"bucket": 8},
        {"image_format": "webp"},
        {"quality": 91},
    ],
)
def test_what_changes_a_byte_changes_the_hash(changes: dict[str, Any]) -> None:
    assert set(changes) <= set(PIXEL_FIELDS)
    assert config(**changes).config_hash != config().config_hash


def test_one_frame_more_changes_the_hash() -> None:
    video = {"family": "animatediff", "image_format": "mp4"}
    assert config(**video, frames=8).config_hash != config(**video, frames=9).config_hash


FLOW = {"family": "sd3", "scheduler": "flow-match-euler"}
VIDEO = {"family": "animatediff", "frames": 8, "image_format": "mp4"}


@pytest.mark.parametrize(
    ("changes", "cure"),
    [
        ({"family": "sd3"}, "set scheduler: flow-match-euler"),
        ({"scheduler": "flow-match-euler"}, "set scheduler: any other than flow-match-euler"),
        ({**FLOW, "width": 72}, "set width and height to multiples of 16"),
        ({"frames": 8, "image_format": "mp4"}, "the family sd15 does not make 8 frames; set frames: 1"),
        ({**VIDEO, "frames": 1}, "the family animatediff does not make 1 frame; set frames: 2 or more"),
        ({**VIDEO, "image_format": "png"}, "a png holds one frame, not 8; set image_format: mp4 or webp"),
        ({**VIDEO, "image_format": "jpeg"}, "a jpeg holds one frame, not 8; set image_format: mp4 or webp"),
        ({"image_format": "mp4"}, "set image_format: png, webp or jpeg"),
        ({**VIDEO, "width": 8192, "height": 8192}, "an mp4 of 8192 x 8192 is more than H.264 allows.*; set a smaller"),
        ({**VIDEO, "image_format": "webp", "frames_per_second": 91}, "set frames_per_second: 90 or less"),
    ],
)
def test_what_no_model_can_make_is_refused_with_the_cure(changes: dict[str, Any], cure: str) -> None:
    with pytest.raises(ValidationError, match=cure):
        config(**changes)


def test_a_video_may_be_as_large_as_its_format() -> None:
    assert config(**VIDEO, width=8192, height=4352).height == 4352  # 512 x 272 macroblocks: level 6.2 and no more
    assert config(**VIDEO, frames_per_second=120).frames_per_second == 120
    assert config(**{**VIDEO, "image_format": "webp"}, width=8192, height=8192).width == 8192
    assert config(image_format="webp", frames_per_second=120).frames == 1


def test_a_video_has_a_duration_and_a_picture_none() -> None:
    assert config(**VIDEO).duration_seconds == 1.0
    assert config(**VIDEO, frames_per_second=16).duration_seconds == 0.5
    assert config(**{**VIDEO, "image_format": "webp"}).frames == 8
    assert config().duration_seconds is None
    assert config(**FLOW).scheduler == "flow-match-euler"


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "other"},
        {"version": 2},
        {"pool": "other"},
        {"max_images": 9},
        {"price": {"gpu_seconds": 9.0, "vram_bytes": 1}},
        {"retired": True},
        {"steps": 4, "guidance_scale": 5},
    ],
)
def test_what_changes_no_byte_keeps_the_hash(changes: dict[str, Any]) -> None:
    assert config(**changes).config_hash == config().config_hash


def test_every_field_either_changes_pixels_or_is_known_not_to() -> None:
    others = {"name", "version", "pool", "max_images", "price", "retired"}
    assert set(GenerationConfig.model_fields) == {*PIXEL_FIELDS, *PIXEL_OPTIONS, *others}


def test_an_option_is_hashed_and_written_only_where_it_was_chosen() -> None:
    assert "batching" not in config().model_dump() == config(batching="step").model_dump()
    assert config(batching="whole").model_dump()["batching"] == "whole"
    assert config(batching="whole").config_hash != config().config_hash == config(batching="step").config_hash


def test_what_may_share_a_batch() -> None:
    """Case DIF-07: with step batching, whatever the batch has only once; else everything that changes pixels."""
    assert config(steps=9, guidance_scale=1, scheduler="euler").kind == config().kind
    assert len({config(**change).kind for change in ({}, {"width": 72}, {"dtype": "float32"}, {"bucket": 7})}) == 4
    assert config(batching="whole", steps=9).kind != config(batching="whole").kind


def test_the_hash_is_the_same_in_every_process_and_release() -> None:
    assert config().config_hash == "6d2c1ea259380279dd12ec57c5c0e95afe7dcf2acd38a28fda2b76a573392120"


def test_a_model_is_swapped_where_its_weights_or_dtype_differ() -> None:
    assert config(steps=9).model_key == config().model_key == "sd15." + "a" * 16 + ".float16"
    assert config(dtype="bfloat16").model_key != config().model_key


def test_weights_that_are_loaded_as_one_family_are_not_there_for_another() -> None:
    """Or a config of the wrong family would draw beside one of the right family, and be refused without it."""
    assert config(family="sdxl").model_key != config().model_key
    assert config(family="sdxl").kind != config().kind


@pytest.mark.parametrize(
    "changes",
    [
        {"guidance_scale": float("nan")},
        {"guidance_scale": -1},
        {"steps": 0},
        {"width": 65},
        {"height": 0},
        {"model": {"name": "../tiny", "digest": "sha256:" + "a" * 64}},
        {"model": {"name": "tiny", "digest": "md5:" + "a" * 32}},
        {"price": {"gpu_seconds": 0, "vram_bytes": 1}},
        {"price": {"gpu_seconds": 1, "vram_bytes": 10**400}},
        {"colour": "red"},
    ],
)
def test_a_config_out_of_bounds_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        config(**changes)


def test_a_file_names_its_versions_and_its_channels_must_exist() -> None:
    version = {key: value for key, value in BODY.items() if key not in ("name", "version")}
    file = ConfigFile.model_validate(
        {"name": "sketch", "channels": {"stable": 2}, "versions": {1: version, 2: version}}
    )
    assert [each.label for each in file.versions.values()] == ["sketch@1", "sketch@2"]
    with pytest.raises(ValidationError, match="points to version 3"):
        ConfigFile.model_validate({"name": "sketch", "channels": {"stable": 3}, "versions": {1: version}})


@pytest.mark.parametrize(
    ("versions", "problem"),
    [
        ({1: BODY | {"version": 2}}, "version 1 calls itself version 2"),
        ({1: BODY | {"name": "poster"}}, "version 1 calls itself name poster"),
        ({1: BODY, "1": BODY | {"steps": 9}}, "a version stands twice"),
    ],
)
def test_a_version_that_is_two_is_refused(versions: dict[Any, Any], problem: str) -> None:
    """Whoever reads the file would take it for the one, and we for the other."""
    with pytest.raises(ValidationError, match=problem):
        ConfigFile.model_validate({"name": "sketch", "channels": {"stable": 1}, "versions": versions})
