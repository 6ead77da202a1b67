"""What families call by different names."""

from typing import Any


def denoiser(pipe: Any) -> Any:
    """The network that runs at every step: a UNet, or a transformer."""
    return pipe.unet if hasattr(pipe, "unet") else pipe.transformer
