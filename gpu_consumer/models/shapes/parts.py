"""The untrained parts: the architecture of Stable Diffusion 1.5, two hundred times narrower."""

from typing import Any

import torch

from gpu_consumer.models.tiny.parts import clip_encoder

TEXT_WIDTH = 64
LATENT_PIXELS = 8  # pixels a side that one latent stands for
_LATENT_CHANNELS = 4


def vae() -> Any:
    """Begins nearly linear, its noise small: colours come through it from the first step on."""
    from diffusers import AutoencoderKL

    vae = AutoencoderKL(
        block_out_channels=(8, 16, 32, 32),  # four levels: eight pixels a latent
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        latent_channels=_LATENT_CHANNELS,
        norm_num_groups=2,  # a group of two channels has no level of its own, and a plain background is a level
        sample_size=64,
        force_upcast=False,
    )
    with torch.no_grad():
        for name, part in vae.named_modules():
            if not isinstance(part, torch.nn.Conv2d):
                continue
            if name.endswith("conv2"):  # the last of a residual branch
                part.weight.zero_()
            elif "sampler" in name:
                part.weight.mul_(0.2).add_(torch.nn.init.dirac_(torch.empty_like(part.weight)))
        vae.quant_conv.bias[_LATENT_CHANNELS:] = -4.0  # the logarithm of the variance
    return vae


def text_encoder(tokenizer: Any) -> Any:
    return clip_encoder(tokenizer, TEXT_WIDTH)


def unet() -> Any:
    """Hears the text at four latents a side and in the middle, where one look covers the picture: half the time of
    hearing it everywhere."""
    from diffusers import UNet2DConditionModel

    return UNet2DConditionModel(
        sample_size=8,
        block_out_channels=(48, 96),
        layers_per_block=1,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=TEXT_WIDTH,
        attention_head_dim=4,  # diffusers means the number of heads
        norm_num_groups=8,
    )


def scheduler() -> Any:
    """Noisier at its end than the usual one (beta 0.02, not 0.012).

    Of a picture this simple the usual last step leaves enough to read its place by. A model learns to, and then reads
    a place out of pure noise instead of out of the prompt. The velocity, unlike the noise, can still be told there.
    """
    from diffusers import DDIMScheduler

    return DDIMScheduler(
        beta_start=0.00085,
        beta_end=0.02,
        beta_schedule="scaled_linear",
        prediction_type="v_prediction",
        clip_sample=False,
        set_alpha_to_one=False,
        steps_offset=1,
        timestep_spacing="trailing",  # the first step is the noisiest, where the place is decided
    )
