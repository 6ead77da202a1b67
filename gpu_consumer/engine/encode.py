"""Pixels to bytes of a file. The same pixels give the same bytes, and the file says nothing but its picture."""

import io
from typing import Any

from PIL import Image

from schemas.config import ImageFormat

CONTENT_TYPES: dict[ImageFormat, tuple[str, str]] = {
    "png": ("image/png", "png"),
    "webp": ("image/webp", "webp"),
    "jpeg": ("image/jpeg", "jpg"),
}


def encode_image(pixels: Any, image_format: ImageFormat, quality: int) -> bytes:
    """`pixels`: uint8 array (height, width, 3). `quality`, 1 to 100, does not matter to PNG."""
    image = Image.fromarray(pixels)
    file = io.BytesIO()
    if image_format == "png":
        image.save(file, "PNG", compress_level=6)
    elif image_format == "webp":
        image.save(file, "WEBP", quality=quality, method=4)
    else:
        image.save(file, "JPEG", quality=quality, subsampling=0)
    return file.getvalue()
