"""Models of the real shapes with random weights, made on the device: nothing is downloaded, and nothing is written."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from gpu_consumer.models.families import FAMILIES
from gpu_consumer.models.loading import Loaded
from gpu_consumer.models.options.parts import modules
from gpu_consumer.models.tiny.parts import clip_encoder, scheduler
from gpu_consumer.models.tokenizer import clip_tokenizer
from tests.stepwise import fresh


@dataclass(frozen=True, slots=True)
class Bench:
    """What is measured of one family: the sizes in pixels and the buckets of its step times, and one to run whole."""

    family: str
    load: Callable[[], Loaded]
    sizes: tuple[int, ...]
    buckets: tuple[int, ...]
    size: int
    bucket: int
    steps: int


def real_models(device: str) -> tuple[Bench, ...]:
    """Stable Diffusion 1.5 and SDXL in float16, on `device` as torch calls it."""
    return (
        Bench("sd15", lambda: random_model("sd15", device), (512, 768), (1, 2, 4, 8, 16), 512, 8, 20),
        Bench("sdxl", lambda: random_model("sdxl", device), (1024,), (1, 2, 4), 1024, 4, 10),
    )


def tiny_models(models: Path) -> tuple[Bench, ...]:
    """The tiny models of both families in float32, from the folder they were written to."""
    return tuple(
        Bench(family, partial(fresh, models, family), (64, 128), (1, 2, 4), 128, 4, 12) for family in ("sd15", "sdxl")
    )


def random_model(family: str, device: str) -> Loaded:
    """Of the family's real shape, in float16. On the device "meta" it has shapes and no numbers."""
    started = time.monotonic()
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float16)
    torch.manual_seed(0)
    try:
        with torch.device(device):
            pipe = {"sd15": _sd15, "sdxl": _sdxl}[family]()
    finally:
        torch.set_default_dtype(default)
    pipe.set_progress_bar_config(disable=True)
    weights = sum(
        tensor.numel() * tensor.element_size()
        for part in modules(pipe)
        for tensor in part.eval().requires_grad_(False).state_dict().values()
    )
    return Loaded(
        key=f"random-{family}",
        pipe=pipe,
        family=FAMILIES[family],
        scheduler_config=dict(pipe.scheduler.config),
        weights_bytes=weights,
        seconds=time.monotonic() - started,
    )


def _vae(scaling_factor: float) -> Any:
    from diffusers import AutoencoderKL

    return AutoencoderKL(
        block_out_channels=(128, 256, 512, 512),
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        layers_per_block=2,
        latent_channels=4,
        sample_size=512,
        scaling_factor=scaling_factor,
        force_upcast=False,
    )


def _text_encoder(width: int, layers: int, heads: int, *, projected: bool = False) -> Any:
    return clip_encoder(
        clip_tokenizer(),
        width,
        projected=projected,
        vocab_size=49_408,
        intermediate_size=4 * width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
    )


def _unet(**parts: Any) -> Any:
    from diffusers import UNet2DConditionModel

    return UNet2DConditionModel(layers_per_block=2, in_channels=4, out_channels=4, **parts)


def _sd15() -> Any:
    from diffusers import StableDiffusionPipeline

    return StableDiffusionPipeline(
        vae=_vae(0.18215),
        text_encoder=_text_encoder(768, 12, 12),
        tokenizer=clip_tokenizer(),
        unet=_unet(
            sample_size=64,
            block_out_channels=(320, 640, 1280, 1280),
            cross_attention_dim=768,
            attention_head_dim=8,
        ),
        scheduler=scheduler(),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )


def _sdxl() -> Any:
    from diffusers import StableDiffusionXLPipeline

    return StableDiffusionXLPipeline(
        vae=_vae(0.13025),
        text_encoder=_text_encoder(768, 12, 12),
        text_encoder_2=_text_encoder(1280, 32, 20, projected=True),
        tokenizer=clip_tokenizer(),
        tokenizer_2=clip_tokenizer(),
        unet=_unet(
            sample_size=128,
            block_out_channels=(320, 640, 1280),
            down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
            up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
            cross_attention_dim=2048,
            attention_head_dim=(5, 10, 20),
            transformer_layers_per_block=(1, 2, 10),
            use_linear_projection=True,
            addition_embed_type="text_time",
            addition_time_embed_dim=256,
            projection_class_embeddings_input_dim=2816,
        ),
        scheduler=scheduler(),
        add_watermarker=False,
    )
