"""Stable Diffusion XL: two text encoders, and a VAE that may overflow in half precision."""

from collections.abc import Sequence
from typing import Any

from gpu_consumer.models.families.base import Family, decode_pictures


def _encode(pipe: Any, prompts: Sequence[str], negatives: Sequence[str], guided: bool) -> dict[str, Any]:
    positive, negative, pooled, negative_pooled = pipe.encode_prompt(
        prompt=list(prompts),
        negative_prompt=list(negatives),
        device=pipe._execution_device,  # with offload, pipe.device is where weights wait
        num_images_per_prompt=1,
        do_classifier_free_guidance=guided,
    )
    return {
        "prompt_embeds": positive,
        "negative_prompt_embeds": negative,
        "pooled_prompt_embeds": pooled,
        "negative_pooled_prompt_embeds": negative_pooled,
    }


def _decode(pipe: Any, latents: Any) -> Any:
    """In float32 where the VAE's config says that it overflows in half precision."""
    import torch

    vae = pipe.vae
    if vae.dtype != torch.float16 or not getattr(vae.config, "force_upcast", False):
        return decode_pictures(pipe, latents)
    vae.to(torch.float32)
    try:
        return decode_pictures(pipe, latents)
    finally:
        vae.to(torch.float16)


SDXL = Family("StableDiffusionXLPipeline", _encode, _decode, load_options={"add_watermarker": False})
