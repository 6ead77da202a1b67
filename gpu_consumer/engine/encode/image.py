"""Pictures, and moving pictures in a picture's format, by Pillow."""

import io
from itertools import pairwise
from typing import Any

from PIL import Image

from schemas.config import ImageFormat

_WEBP_EFFORT = 4  # of 6; the next one takes twice as long for a file 1 % smaller


def encode_image(pixels: Any, image_format: ImageFormat, quality: int) -> bytes:
    """`pixels`: uint8 array (height, width, 3). `quality`, 1 to 100, does not matter to PNG."""
    image = Image.fromarray(pixels)
    file = io.BytesIO()
    if image_format == "png":
        image.save(file, "PNG", compress_level=6)
    elif image_format == "webp":
        image.save(file, "WEBP", quality=quality, method=_WEBP_EFFORT)
    else:
        assert image_format == "jpeg", f"{image_format} is no format of a picture"
        image.save(file, "JPEG", quality=quality, subsampling=0)
    return file.getvalue()


def encode_animation(pixels: Any, quality: int, frames_per_second: int) -> bytes:
    """An animated WebP that repeats for ever, of a uint8 array (frames, height, width, 3)."""
    images = [Image.fromarray(frame) for frame in pixels]
    # Whole milliseconds each, which add up to the right end: 3 a second are 333, 334 and 333.
    starts = [round(1000 * n / frames_per_second) for n in range(len(images) + 1)]
    file = io.BytesIO()
    images[0].save(
        file,
        "WEBP",
        save_all=True,
        append_images=images[1:],
        duration=[end - start for start, end in pairwise(starts)],
        loop=0,
        quality=quality,
        method=_WEBP_EFFORT,
    )
    return file.getvalue()
