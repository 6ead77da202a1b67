"""What the engines ask of a family of pipelines: a text encoded, and a latent decoded."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from schemas.config import GenerationConfig

Encode = Callable[[Any, Sequence[str], Sequence[str], bool], dict[str, Any]]
Decode = Callable[[Any, Any], Any]
Unfit = Callable[[Any, GenerationConfig], str | None]


@dataclass(frozen=True, slots=True)
class Family:
    """`encode` (pipeline, prompts, negative prompts, guided) gives the pipeline's own arguments in place of prompts.

    `decode` (pipeline, latents) gives pixels, float, about -1 to 1: (pictures, 3, height, width) of latents (pictures,
    channels, ...), or (videos, frames, 3, height, width) of latents (videos, channels, frames, ...).

    `video`: its pipeline takes a number of frames. `tokens_max`: how many tokens of a tokenizer, by its name in the
    pipeline, are read where that is fewer than the tokenizer says.

    `unfit` (pipeline, config) -> why this one makes no pictures of the config's shape, with the cure, or None.
    """

    pipeline_class: str
    encode: Encode
    decode: Decode
    load_options: Mapping[str, Any] = field(default_factory=dict)
    video: bool = False
    tokens_max: Mapping[str, int] = field(default_factory=dict)
    unfit: Unfit = lambda _pipe, _config: None


def unscaled(vae: Any, latents: Any) -> Any:
    """Latents of the pipeline's scale in the VAE's own, and of its type; each step as the stock pipelines take it."""
    import torch

    config = vae.config
    latents = latents.to(vae.dtype)
    mean, deviation = (getattr(config, name, None) for name in ("latents_mean", "latents_std"))
    if mean is not None and deviation is not None:
        one_each = (1, -1, *[1] * (latents.ndim - 2))
        mean, deviation = (
            torch.tensor(numbers, device=latents.device, dtype=latents.dtype).view(one_each)
            for numbers in (mean, deviation)
        )
        return latents * deviation / config.scaling_factor + mean
    latents = latents / config.scaling_factor
    shift = getattr(config, "shift_factor", None)
    return latents if shift is None else latents + shift


def decode_pictures(pipe: Any, latents: Any) -> Any:
    """Family.decode of pictures: all at once, in the VAE's own type."""
    return pipe.vae.decode(unscaled(pipe.vae, latents), return_dict=False)[0]
