"""The parts of a pipeline, whatever its family calls them."""

from typing import Any

import torch


def modules(pipe: Any) -> list[torch.nn.Module]:
    """All that have weights, each once, though a pipeline may use one twice."""
    return list({id(part): part for part in pipe.components.values() if isinstance(part, torch.nn.Module)}.values())


def denoiser(pipe: Any) -> Any:
    """The network that runs at every step: a UNet, or a transformer."""
    return pipe.unet if hasattr(pipe, "unet") else pipe.transformer
