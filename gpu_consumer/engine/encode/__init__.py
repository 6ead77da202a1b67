"""Pixels to bytes of a file. The same pixels give the same bytes, and the file says nothing but its picture."""

from typing import Any

from gpu_consumer.engine.encode.image import encode_animation, encode_image
from gpu_consumer.engine.encode.video import encode_mp4
from schemas.config import ImageFormat

__all__ = ["CONTENT_TYPES", "encode", "encode_image"]

CONTENT_TYPES: dict[ImageFormat, tuple[str, str]] = {
    "png": ("image/png", "png"),
    "webp": ("image/webp", "webp"),
    "jpeg": ("image/jpeg", "jpg"),
    "mp4": ("video/mp4", "mp4"),
}


def encode(pixels: Any, image_format: ImageFormat, quality: int, frames_per_second: int) -> bytes:
    """`pixels`: uint8 array, (height, width, 3) of a picture or (frames, height, width, 3) of a video."""
    if pixels.ndim == 3:
        return encode_image(pixels, image_format, quality)
    if image_format == "webp":
        return encode_animation(pixels, quality, frames_per_second)
    assert image_format == "mp4", f"a config with frames and {image_format} is refused before it gets here"
    return encode_mp4(pixels, quality, frames_per_second)
