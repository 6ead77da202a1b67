"""How far two pictures or videos are apart, in levels of 255 a colour channel."""

import io
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image, ImageSequence, UnidentifiedImageError


class Unreadable(Exception):
    """The bytes are no picture and no video."""


@dataclass(frozen=True, slots=True)
class Levels:
    most: int
    mean: float

    def __str__(self) -> str:
        return f"{self.most} of 255 levels apart at most, {self.mean:.3g} in the mean"


def apart(one: bytes, other: bytes, content_type: str) -> Levels | None:
    """None where they differ in size or in the number of frames. Raises Unreadable."""
    first, second = (_frames(data, content_type) for data in (one, other))
    if first.shape != second.shape:
        return None
    distance = np.abs(first.astype(np.int16) - second.astype(np.int16))
    return Levels(int(distance.max()), float(distance[..., :3].mean()))


def _frames(data: bytes, content_type: str) -> Any:
    """uint8 array (frames, height, width, colours, and how opaque it is)."""
    return _video(data) if content_type == "video/mp4" else _images(data)


def _images(data: bytes) -> Any:
    try:
        with Image.open(io.BytesIO(data)) as image:
            return np.stack([np.asarray(frame.convert("RGBA")) for frame in ImageSequence.Iterator(image)])
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise Unreadable(f"it is no picture ({error})") from error


def _video(data: bytes) -> Any:
    try:
        import av
    except ImportError as error:
        raise Unreadable("PyAV, which reads videos, is not installed") from error
    try:
        with av.open(io.BytesIO(data), "r") as container:
            return np.stack([frame.to_ndarray(format="rgba") for frame in container.decode(video=0)])
    except (av.FFmpegError, ValueError, IndexError) as error:  # no frames, or of several sizes, are a ValueError
        raise Unreadable(f"it is no video ({error})") from error
