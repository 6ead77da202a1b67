"""Decoded pictures: are they pictures, and as bytes."""

from typing import Any

import torch

from gpu_consumer.engine.protocol import FlawCode


def defect(image: torch.Tensor) -> FlawCode | None:
    """What is wrong with one decoded picture, (3, height, width), about -1 to 1: NaN or infinity, or a single colour.

    A half-precision decoder that overflows gives NaN, which turns into black on its way to 8 bits.
    """
    if not bool(torch.isfinite(image).all()):
        return "non_finite"
    levels = to_uint8(image[None])[0].reshape(-1, 3)
    return "blank_output" if bool((levels == levels[0]).all()) else None


def to_uint8(images: torch.Tensor) -> Any:
    """(pictures, 3, height, width), about -1 to 1, any type and device -> uint8 array (pictures, height, width, 3)."""
    levels = (images.float() / 2 + 0.5).clamp(0, 1).nan_to_num(0.0) * 255
    return levels.round().to(torch.uint8).permute(0, 2, 3, 1).contiguous().cpu().numpy()
