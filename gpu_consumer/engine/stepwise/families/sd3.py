"""Stable Diffusion 3: a transformer that hears all text encoders in one row of tokens, and their pooled text."""

from collections.abc import Mapping
from typing import Any

import torch

from gpu_consumer.engine.stepwise.families.base import Rows, StepFamily, latent_size
from gpu_consumer.engine.stepwise.request import Shape


def _condition(text: Mapping[str, Any], _texts: int, _shape: Shape) -> Rows:
    return {"prompt": text["prompt_embeds"], "pooled": text["pooled_prompt_embeds"]}


def _predict(pipe: Any, latents: torch.Tensor, timesteps: torch.Tensor, rows: Rows) -> torch.Tensor:
    velocity: torch.Tensor = pipe.transformer(
        hidden_states=latents,
        timestep=timesteps,
        encoder_hidden_states=rows["prompt"],
        pooled_projections=rows["pooled"],
        return_dict=False,
    )[0]
    return velocity


def _latent_shape(pipe: Any, shape: Shape) -> tuple[int, ...]:
    return (pipe.transformer.config.in_channels, *latent_size(pipe, shape))


def _unsuited(pipe: Any) -> str | None:
    if not pipe.scheduler.config.get("use_dynamic_shifting"):
        return None
    return "its noise levels depend on the picture's size (dynamic shifting)"


SD3 = StepFamily(_condition, _predict, _latent_shape, _unsuited)
