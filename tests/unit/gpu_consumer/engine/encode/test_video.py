import io
from fractions import Fraction
from typing import Any

import av
import numpy as np
import pytest
from numpy.typing import NDArray

from gpu_consumer.engine.encode.video import encode_mp4
from gpu_consumer.models.shapes.draw import PALETTE, Scene, draw
from gpu_consumer.models.shapes.judge import look


def moving(frames: int) -> NDArray[np.uint8]:
    return np.stack([draw(Scene("star", "red", "blue"), shift=(n / 40 - 0.1, 0)) for n in range(frames)])


def decoded(data: bytes) -> tuple[Any, NDArray[np.uint8]]:
    with av.open(io.BytesIO(data), "r") as file:
        (stream,) = file.streams
        assert isinstance(stream, av.VideoStream)
        facts = (
            stream.codec.name,
            stream.codec_context.pix_fmt,
            (stream.width, stream.height),
            stream.average_rate,
            stream.duration * stream.time_base if stream.duration and stream.time_base else None,
        )
        frames = np.array([frame.to_ndarray(format="rgb24") for frame in file.decode(stream)], np.uint8)
    return facts, frames


@pytest.mark.parametrize(("frames", "frames_per_second"), [(2, 1), (8, 8), (9, 24), (16, 30)])
def test_what_goes_in_comes_out(frames: int, frames_per_second: int) -> None:
    facts, seen = decoded(encode_mp4(moving(frames), 90, frames_per_second))
    assert facts == (
        "h264",
        "yuv420p",
        (64, 64),
        frames_per_second,
        Fraction(frames, frames_per_second),
    )
    assert seen.shape == (frames, 64, 64, 3)
    assert np.abs(seen.astype(int) - moving(frames)).mean() < 5
    looks = [look(frame) for frame in seen]
    assert {(one.shape, one.colour, one.background) for one in looks if one} == {("star", "red", "blue")}
    assert [one.x for one in looks if one] == sorted(one.x for one in looks if one)


def test_sizes_are_any_multiple_of_eight() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (3, 72, 104, 3), dtype=np.uint8)
    facts, seen = decoded(encode_mp4(pixels, 90, 8))
    assert facts[2] == (104, 72)
    assert seen.shape == pixels.shape


@pytest.mark.parametrize("colour", [*PALETTE.values(), (0, 0, 0), (255, 255, 255), (0, 255, 0)])
def test_a_colour_stays_what_it_was(colour: tuple[int, int, int]) -> None:
    """Two levels at most: 8 bits of luma and chroma, there and back."""
    _, seen = decoded(encode_mp4(np.full((2, 64, 64, 3), colour, dtype=np.uint8), 100, 8))
    assert np.abs(seen.astype(int) - np.array(colour)).max() <= 2


def test_the_same_frames_are_the_same_bytes_which_say_neither_who_nor_when() -> None:
    data = encode_mp4(moving(8), 90, 8)
    assert encode_mp4(moving(8), 90, 8) == data
    assert encode_mp4(moving(8)[::-1].copy(), 90, 8) != data
    for word in (b"x264", b"Lav", b"core "):
        assert word not in data


def test_the_index_comes_before_the_frames() -> None:
    data = encode_mp4(moving(8), 90, 8)
    assert data.index(b"ftyp") < data.index(b"moov") < data.index(b"mdat")


def test_quality_costs_bytes() -> None:
    sizes = [len(encode_mp4(moving(8), quality, 8)) for quality in (1, 50, 100)]
    assert sizes == sorted(set(sizes))


def test_without_anonymous_memory_it_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    data = encode_mp4(moving(3), 90, 8)
    monkeypatch.delattr("os.memfd_create")
    assert encode_mp4(moving(3), 90, 8) == data
