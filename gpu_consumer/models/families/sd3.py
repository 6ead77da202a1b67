"""Stable Diffusion 3: a transformer that follows a flow, two CLIP text encoders, and T5 where the folder has it."""

from collections.abc import Sequence
from typing import Any

from gpu_consumer.models.families.base import Family, decode_pictures
from schemas.config import GenerationConfig
from schemas.families import FAMILY_LIMITS

T5_TOKENS_MAX = FAMILY_LIMITS["sd3"].tokens_max["tokenizer_3"]


def _encode(pipe: Any, prompts: Sequence[str], negatives: Sequence[str], guided: bool) -> dict[str, Any]:
    """Every encoder hears the whole prompt; in place of a T5 that is not there the pipeline puts zeros."""
    positive, negative, pooled, negative_pooled = pipe.encode_prompt(
        prompt=list(prompts),
        prompt_2=None,
        prompt_3=None,
        negative_prompt=list(negatives),
        device=pipe._execution_device,  # with offload, pipe.device is where weights wait
        num_images_per_prompt=1,
        do_classifier_free_guidance=guided,
        max_sequence_length=T5_TOKENS_MAX,
    )
    return {
        "prompt_embeds": positive,
        "negative_prompt_embeds": negative,
        "pooled_prompt_embeds": pooled,
        "negative_pooled_prompt_embeds": negative_pooled,
    }


def _unfit(pipe: Any, config: GenerationConfig) -> str | None:
    transformer = pipe.transformer.config
    most = transformer.pos_embed_max_size * transformer.patch_size * pipe.vae_scale_factor
    if max(config.width, config.height) <= most:
        return None
    return f"it knows the places of {most} pixels a side; set width and height: {most} or less"


# Its VAE's config says force_upcast, a word left over from SDXL's: it decodes in half precision, as stock does.
SD3 = Family(
    "StableDiffusion3Pipeline", _encode, decode_pictures, tokens_max={"tokenizer_3": T5_TOKENS_MAX}, unfit=_unfit
)
