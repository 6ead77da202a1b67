import io

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from gpu_consumer.engine.encode import CONTENT_TYPES, encode
from gpu_consumer.models.shapes.draw import Scene, draw

PICTURE = draw(Scene("star", "red", "blue"))


def moving(frames: int) -> NDArray[np.uint8]:
    return np.stack([draw(Scene("star", "red", "blue"), shift=(n / 40, 0)) for n in range(frames)])


def test_a_png_is_its_pixels_and_nothing_else() -> None:
    image = Image.open(io.BytesIO(encode(PICTURE, "png", 90, 8)))
    assert (image.format, image.info) == ("PNG", {})
    assert np.array_equal(np.asarray(image), PICTURE)


@pytest.mark.parametrize("frames_per_second", [1, 3, 7, 24, 120])
def test_an_animated_webp_has_every_frame_for_its_time(frames_per_second: int) -> None:
    data = encode(moving(7), "webp", 90, frames_per_second)
    assert encode(moving(7), "webp", 90, frames_per_second) == data
    image = Image.open(io.BytesIO(data))
    assert (image.format, image.size, image.info["loop"]) == ("WEBP", (64, 64), 0)
    assert image.n_frames == 7  # type: ignore[attr-defined]
    ends = []
    for n, frame in enumerate(moving(7)):
        image.seek(n)
        image.load()
        ends.append(image.info["timestamp"] + image.info["duration"])
        assert np.abs(np.asarray(image.convert("RGB")).astype(int) - frame).mean() < 8
    assert ends == [round(1000 * (n + 1) / frames_per_second) for n in range(7)]


def test_every_format_has_a_type_and_an_extension() -> None:
    assert set(CONTENT_TYPES) == {"png", "webp", "jpeg", "mp4"}
    assert CONTENT_TYPES["mp4"] == ("video/mp4", "mp4")
