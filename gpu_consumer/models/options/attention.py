"""Who computes attention. torch's own (SDPA) is what diffusers takes by itself."""

from typing import Any

from gpu_consumer.models.digests import ModelUnavailable, told
from gpu_consumer.models.options.parts import denoiser
from schemas.config import GenerationConfig


def choose_attention(pipe: Any, config: GenerationConfig) -> None:
    """Raises ModelUnavailable where xformers is installed and does not run, as one built for another torch does not."""
    if config.attention == "sdpa":
        return
    try:
        denoiser(pipe).enable_xformers_memory_efficient_attention()
    except Exception as error:
        found = told(error)
    else:
        return
    raise ModelUnavailable(
        f"xformers does not run here ({found}); install the build of it that is for this torch, or serve a version of "
        f"{config.name} with attention: sdpa"
    )
