"""Stable Diffusion XL: two text encoders side by side, their pooled text, and the picture's size as six numbers."""

from collections.abc import Mapping
from typing import Any

import torch

from gpu_consumer.engine.stepwise.families.base import Rows, StepFamily, distilled_guidance, picture_latents
from gpu_consumer.engine.stepwise.request import Shape


def _condition(text: Mapping[str, Any], texts: int, shape: Shape) -> Rows:
    """Micro-conditioning (arXiv 2307.01952, 2.2): original size, top left of the crop, target size; nothing is cut."""
    prompt = text["prompt_embeds"]
    size = (shape.height, shape.width)
    numbers = torch.tensor([[*size, 0, 0, *size]], dtype=prompt.dtype, device=prompt.device)
    return {"prompt": prompt, "pooled": text["pooled_prompt_embeds"], "size": numbers.repeat(texts, 1)}


def _predict(pipe: Any, latents: torch.Tensor, timesteps: torch.Tensor, rows: Rows) -> torch.Tensor:
    noise: torch.Tensor = pipe.unet(
        latents,
        timesteps,
        encoder_hidden_states=rows["prompt"],
        added_cond_kwargs={"text_embeds": rows["pooled"], "time_ids": rows["size"]},
        return_dict=False,
    )[0]
    return noise


SDXL = StepFamily(_condition, _predict, picture_latents, distilled_guidance)
