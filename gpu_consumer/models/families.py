"""What differs between families of pipelines: how a text is encoded and a latent decoded. One entry a family."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Encode = Callable[[Any, Sequence[str], Sequence[str], bool], dict[str, Any]]
Decode = Callable[[Any, Any], Any]


@dataclass(frozen=True, slots=True)
class Family:
    """`encode` (pipeline, prompts, negative prompts, guided) gives the pipeline's own arguments in place of prompts.

    `decode` (pipeline, latents) gives pixels, float, (pictures, 3, height, width), about -1 to 1.
    """

    pipeline_class: str
    encode: Encode
    decode: Decode
    load_options: Mapping[str, Any] = field(default_factory=dict)


def _encode_sd15(pipe: Any, prompts: Sequence[str], negatives: Sequence[str], guided: bool) -> dict[str, Any]:
    # Two lists of one length: a single negative prompt, or none, once gave an item its neighbour's (diffusers#779).
    positive, negative = pipe.encode_prompt(
        prompt=list(prompts),
        negative_prompt=list(negatives),
        device=pipe.device,
        num_images_per_prompt=1,
        do_classifier_free_guidance=guided,
    )
    return {"prompt_embeds": positive, "negative_prompt_embeds": negative}


def _encode_sdxl(pipe: Any, prompts: Sequence[str], negatives: Sequence[str], guided: bool) -> dict[str, Any]:
    positive, negative, pooled, negative_pooled = pipe.encode_prompt(
        prompt=list(prompts),
        negative_prompt=list(negatives),
        device=pipe.device,
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
    """The VAE's own type, but float32 where its config says that it overflows in half precision (SDXL's does)."""
    import torch

    vae = pipe.vae
    own = vae.dtype
    upcast = own == torch.float16 and getattr(vae.config, "force_upcast", False)
    if upcast:
        vae.to(torch.float32)
    try:
        scaled = latents.to(vae.dtype) / vae.config.scaling_factor
        return vae.decode(scaled, return_dict=False)[0]
    finally:
        if upcast:
            vae.to(own)


FAMILIES: Mapping[str, Family] = {
    "sd15": Family("StableDiffusionPipeline", _encode_sd15, _decode),
    "sdxl": Family("StableDiffusionXLPipeline", _encode_sdxl, _decode, {"add_watermarker": False}),
}

# The scheduler a config names, as a class of diffusers and what its name fixes beside the model's own noise schedule.
SCHEDULERS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "ddim": ("DDIMScheduler", {}),
    "euler": ("EulerDiscreteScheduler", {}),
    "euler-ancestral": ("EulerAncestralDiscreteScheduler", {}),
    "dpmpp-2m": ("DPMSolverMultistepScheduler", {"algorithm_type": "dpmsolver++", "solver_order": 2}),
    "unipc": ("UniPCMultistepScheduler", {}),
    "flow-match-euler": ("FlowMatchEulerDiscreteScheduler", {}),
}


def fresh_scheduler(name: str, base: Mapping[str, Any]) -> Any:
    """A scheduler of its own for one call: its step index is state, and a shared one ends half way with an error."""
    import diffusers

    class_name, fixed = SCHEDULERS[name]
    return getattr(diffusers, class_name).from_config(dict(base), **fixed)
