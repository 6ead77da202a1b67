"""A decode in pieces: less memory at its peak, more time, and other bits."""

from typing import Any

from schemas.config import GenerationConfig


def cut_decoding(pipe: Any, config: GenerationConfig) -> None:
    """vae_slicing and vae_tiling. A picture no larger than one tile is decoded whole."""
    vae = pipe.vae
    if config.vae_slicing:
        vae.enable_slicing()
    if config.vae_tiling is False:
        return
    vae.enable_tiling()
    if config.vae_tiling is not True:
        vae.tile_sample_min_size = config.vae_tiling
        # Each block but the last doubles what it decodes.
        vae.tile_latent_min_size = config.vae_tiling // 2 ** (len(vae.config.block_out_channels) - 1)
