"""AnimateDiff: a slot holds all frames of a video, and each of them hears the same text."""

from collections.abc import Mapping
from typing import Any

import torch

from gpu_consumer.engine.stepwise.families.base import Rows, StepFamily, distilled_guidance, latent_size
from gpu_consumer.engine.stepwise.request import Shape


def _condition(text: Mapping[str, Any], _texts: int, _shape: Shape) -> Rows:
    return {"prompt": text["prompt_embeds"]}


def _predict(pipe: Any, latents: torch.Tensor, timesteps: torch.Tensor, rows: Rows) -> torch.Tensor:
    prompt = rows["prompt"].repeat_interleave(latents.shape[2], dim=0)
    noise: torch.Tensor = pipe.unet(latents, timesteps, encoder_hidden_states=prompt, return_dict=False)[0]
    return noise


def _latent_shape(pipe: Any, shape: Shape) -> tuple[int, ...]:
    return (pipe.unet.config.in_channels, shape.frames, *latent_size(pipe, shape))


ANIMATEDIFF = StepFamily(_condition, _predict, _latent_shape, distilled_guidance)
