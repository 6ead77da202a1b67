"""Levels apart, of each format."""

import io

import numpy as np
import pytest
from PIL import Image

from gpu_consumer.verify.levels import Levels, Unreadable, apart

GREY = np.full((16, 16, 3), 100, np.uint8)


def png(*frames: np.ndarray, kind: str = "PNG", mode: str = "RGB") -> bytes:
    images = [Image.fromarray(frame).convert(mode) for frame in frames]
    file = io.BytesIO()
    more = {"save_all": True, "append_images": images[1:], "lossless": True} if len(images) > 1 else {}
    images[0].save(file, kind, **more)
    return file.getvalue()


def nudged(levels: int) -> np.ndarray:
    changed = GREY.copy()
    changed[3, 4, 1] += levels
    return changed


def test_one_channel_of_one_pixel() -> None:
    assert apart(png(GREY), png(GREY), "image/png") == Levels(0, 0)
    assert apart(png(GREY), png(nudged(3)), "image/png") == Levels(3, 3 / GREY.size)
    assert apart(png(nudged(155)), png(GREY), "image/png") == Levels(155, 155 / GREY.size), "no wrap at 255"


def test_the_same_pixels_in_other_bytes() -> None:
    assert apart(png(GREY), png(GREY, mode="RGBA"), "image/png") == Levels(0, 0)


def test_a_picture_that_one_can_see_through_is_another() -> None:
    glass = np.dstack([GREY, np.full((16, 16), 90, np.uint8)])
    levels = apart(png(GREY), png(glass, mode="RGBA"), "image/png")
    assert levels is not None
    assert levels.most == 165


def test_every_frame_counts() -> None:
    one, other = png(GREY, nudged(1), kind="WEBP"), png(GREY, nudged(9), kind="WEBP")
    assert apart(one, other, "image/webp") == Levels(8, 8 / GREY.size / 2)
    assert apart(one, png(GREY, nudged(1), nudged(2), kind="WEBP"), "image/webp") is None


def test_another_size() -> None:
    assert apart(png(GREY), png(GREY[:8]), "image/png") is None


@pytest.mark.parametrize("kind", ["image/png", "image/webp", "video/mp4"])
@pytest.mark.parametrize("broken", [b"", b"no picture", png(GREY)[:60]])
def test_no_picture(kind: str, broken: bytes) -> None:
    with pytest.raises(Unreadable):
        apart(broken, broken, kind)


def test_a_video() -> None:
    av = pytest.importorskip("av")

    def video(value: int) -> bytes:
        file = io.BytesIO()
        with av.open(file, "w", format="mp4") as container:
            stream = container.add_stream("libx264", rate=8, width=64, height=64, pix_fmt="yuv420p")
            for _ in range(3):
                frame = av.VideoFrame.from_ndarray(np.full((64, 64, 3), value, np.uint8), format="rgb24")
                container.mux(stream.encode(frame))
            container.mux(stream.encode(None))
        return file.getvalue()

    one = video(100)
    assert apart(one, one, "video/mp4") == Levels(0, 0)
    levels = apart(one, video(140), "video/mp4")
    assert levels is not None
    assert 35 <= levels.most <= 45
