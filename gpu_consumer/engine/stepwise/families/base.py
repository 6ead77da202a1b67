"""What the loop asks of a family of models: its conditioning by rows, and one prediction for a whole batch."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from gpu_consumer.engine.stepwise.request import Shape

Rows = Mapping[str, torch.Tensor]


@dataclass(frozen=True, slots=True)
class StepFamily:
    """`condition` (what models.families.Family.encode gave for some texts, how many, shape) -> tensors by name, each
    with one row a text.

    `predict` (pipeline, latents, timesteps, conditioning), all of the same number of rows, float32 timesteps -> noise
    of the latents' shape.

    `latent_shape` (pipeline, shape) -> of one picture's latents, without the row.

    `unsuited` (pipeline) -> why this one cannot run step by step, or None.
    """

    condition: Callable[[Mapping[str, Any], int, Shape], Rows]
    predict: Callable[[Any, torch.Tensor, torch.Tensor, Rows], torch.Tensor]
    latent_shape: Callable[[Any, Shape], tuple[int, ...]]
    unsuited: Callable[[Any], str | None]


def picture_latents(pipe: Any, shape: Shape) -> tuple[int, ...]:
    return (pipe.unet.config.in_channels, *latent_size(pipe, shape))


def latent_size(pipe: Any, shape: Shape) -> tuple[int, int]:
    """Rows and columns."""
    scale = pipe.vae_scale_factor
    return (shape.height // scale, shape.width // scale)


def distilled_guidance(pipe: Any) -> str | None:
    if pipe.unet.config.time_cond_proj_dim is None:
        return None
    return "its guidance is an input of the model (a consistency model)"
