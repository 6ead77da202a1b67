"""Stable Diffusion 1.5: a UNet that hears one text encoder."""

from collections.abc import Mapping
from typing import Any

import torch

from gpu_consumer.engine.stepwise.families.base import Rows, StepFamily, distilled_guidance, picture_latents
from gpu_consumer.engine.stepwise.request import Shape


def _condition(text: Mapping[str, Any], _texts: int, _shape: Shape) -> Rows:
    return {"prompt": text["prompt_embeds"]}


def _predict(pipe: Any, latents: torch.Tensor, timesteps: torch.Tensor, rows: Rows) -> torch.Tensor:
    noise: torch.Tensor = pipe.unet(latents, timesteps, encoder_hidden_states=rows["prompt"], return_dict=False)[0]
    return noise


SD15 = StepFamily(_condition, _predict, picture_latents, distilled_guidance)
