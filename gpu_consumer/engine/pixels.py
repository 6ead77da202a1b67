"""Decoded pictures and videos: do they show anything, and as bytes."""

from typing import Any

import torch

from gpu_consumer.engine.protocol import FlawCode


def defect(image: torch.Tensor) -> FlawCode | None:
    """What is wrong with one decoded picture, (3, height, width), or video, (frames, 3, height, width), about -1 to 1.

    NaN or infinity anywhere, or a single colour on every frame. A half-precision decoder that overflows gives NaN,
    which turns into black on its way to 8 bits.
    """
    if not bool(torch.isfinite(image).all()):
        return "non_finite"
    levels = to_uint8(image).reshape(-1, image.shape[-2] * image.shape[-1], 3)
    return "blank_output" if bool((levels == levels[:, :1]).all()) else None


def to_uint8(images: torch.Tensor) -> Any:
    """(..., 3, height, width), about -1 to 1, any type and device -> uint8 array (..., height, width, 3)."""
    levels = (images.float() / 2 + 0.5).clamp(0, 1).nan_to_num(0.0) * 255
    return levels.round().to(torch.uint8).movedim(-3, -1).contiguous().cpu().numpy()
