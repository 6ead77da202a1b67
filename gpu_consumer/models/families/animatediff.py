"""AnimateDiff: Stable Diffusion 1.5 with motion modules between its layers; the frames of a video hear one text."""

from typing import Any

from gpu_consumer.models.families.base import Family
from gpu_consumer.models.families.sd15 import encode_one
from schemas.config import GenerationConfig

# Frames that the VAE decodes at a time, as the stock pipeline does: a whole bucket of videos would take the memory of
# a hundred pictures.
DECODE_FRAMES = 16


def _decode(pipe: Any, latents: Any) -> Any:
    """Chunk by chunk, the last filled up with its last frame, so that every chunk has one shape and so one result."""
    import torch

    videos, channels, frames = latents.shape[:3]
    vae = pipe.vae
    latents = 1 / vae.config.scaling_factor * latents.to(vae.dtype)  # stock multiplies here: another last bit
    flat = latents.movedim(2, 1).reshape(videos * frames, channels, *latents.shape[3:])
    chunk = min(DECODE_FRAMES, len(flat))
    missing = -len(flat) % chunk
    if missing:
        flat = torch.cat([flat, flat[-1:].expand(missing, *flat.shape[1:])])
    images = torch.cat([vae.decode(part, return_dict=False)[0] for part in flat.split(chunk)])[: videos * frames]
    return images.reshape(videos, frames, *images.shape[1:])


def _unfit(pipe: Any, config: GenerationConfig) -> str | None:
    most = pipe.unet.config.motion_max_seq_length
    if config.frames <= most:
        return None
    return f"its motion modules know the places of {most} frames, not {config.frames}; set frames: {most} or less"


ANIMATEDIFF = Family("AnimateDiffPipeline", encode_one, _decode, video=True, unfit=_unfit)
