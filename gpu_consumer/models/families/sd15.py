"""Stable Diffusion 1.5: one text encoder."""

from collections.abc import Sequence
from typing import Any

from gpu_consumer.models.families.base import Family, decode_pictures


def encode_one(pipe: Any, prompts: Sequence[str], negatives: Sequence[str], guided: bool) -> dict[str, Any]:
    """Family.encode of every pipeline that has this one's text encoder."""
    # Two lists of one length: a single negative prompt, or none, once gave an item its neighbour's (diffusers#779).
    positive, negative = pipe.encode_prompt(
        prompt=list(prompts),
        negative_prompt=list(negatives),
        device=pipe._execution_device,  # with offload, pipe.device is where weights wait
        num_images_per_prompt=1,
        do_classifier_free_guidance=guided,
    )
    return {"prompt_embeds": positive, "negative_prompt_embeds": negative}


SD15 = Family("StableDiffusionPipeline", encode_one, decode_pictures)
