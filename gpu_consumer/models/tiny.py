"""Tiny pipelines with the architecture of the real ones: 64 x 64 pictures in milliseconds, and no download.

They draw nothing one would recognise, but every part is real: a text encoder that is heard, guidance that matters, a
decoder that gives many colours. What is built here is byte-identical each time, so its digest can stand in a config.
"""

import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gpu_consumer.models.digests import model_digest
from gpu_consumer.models.offline import go_offline
from gpu_consumer.models.tokenizer import CONTEXT, clip_tokenizer
from gpu_consumer.models.weights import fill

TEXT_WIDTH = 32
_GROUPS = 8
_UNET_CHANNELS = (16, 32)

# Random attention averages 77 tokens into one grey mean. Sharper keys and louder text make one word change the picture.
_UNET_GAINS = {"attn2.to_q": 2.0, "attn2.to_k": 2.0, "attn2.to_out": 3.0}
_TEXT_GAINS = {"q_proj": 2.0, "k_proj": 2.0}


def _vae() -> Any:
    from diffusers import AutoencoderKL

    vae = AutoencoderKL(
        block_out_channels=(8, 8, 16, 16),  # four levels: eight pixels a latent, as in the real ones
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        latent_channels=4,
        norm_num_groups=4,
        sample_size=64,
        force_upcast=False,
    )
    fill(vae, "vae")
    return vae


def _text_encoder(seed: str, tokenizer: Any, *, projected: bool = False) -> Any:
    from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

    config = CLIPTextConfig(
        vocab_size=len(tokenizer),
        hidden_size=TEXT_WIDTH,
        intermediate_size=2 * TEXT_WIDTH,
        projection_dim=TEXT_WIDTH,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=CONTEXT,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    encoder = (CLIPTextModelWithProjection if projected else CLIPTextModel)(config)
    fill(encoder, seed, _TEXT_GAINS)
    return encoder.eval()


def _unet(seed: str, **different: Any) -> Any:
    from diffusers import UNet2DConditionModel

    unet = UNet2DConditionModel(
        **{
            "sample_size": 8,
            "block_out_channels": _UNET_CHANNELS,
            "layers_per_block": 1,
            "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
            "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
            "cross_attention_dim": TEXT_WIDTH,
            "attention_head_dim": 4,
            "norm_num_groups": _GROUPS,
            **different,
        }
    )
    fill(unet, seed, _UNET_GAINS)
    return unet


def _scheduler() -> Any:
    from diffusers import DDIMScheduler

    return DDIMScheduler(
        beta_start=0.00085,
        beta_end=0.012,
        beta_schedule="scaled_linear",
        clip_sample=False,
        set_alpha_to_one=False,
        steps_offset=1,
    )


def tiny_sd15() -> Any:
    from diffusers import StableDiffusionPipeline

    tokenizer = clip_tokenizer()
    return StableDiffusionPipeline(
        vae=_vae(),
        text_encoder=_text_encoder("text", tokenizer),
        tokenizer=tokenizer,
        unet=_unet("sd15"),
        scheduler=_scheduler(),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )


def tiny_sdxl() -> Any:
    from diffusers import StableDiffusionXLPipeline

    tokenizer = clip_tokenizer()
    unet = _unet(
        "sdxl",
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=2 * TEXT_WIDTH,  # both encoders, side by side
        transformer_layers_per_block=(1, 2),
        use_linear_projection=True,
        addition_embed_type="text_time",
        addition_time_embed_dim=8,
        projection_class_embeddings_input_dim=TEXT_WIDTH + 6 * 8,  # pooled text, and six numbers about the size
    )
    return StableDiffusionXLPipeline(
        vae=_vae(),
        text_encoder=_text_encoder("text", tokenizer),
        text_encoder_2=_text_encoder("text-2", tokenizer, projected=True),
        tokenizer=tokenizer,
        tokenizer_2=clip_tokenizer(),
        unet=unet,
        scheduler=_scheduler(),
        add_watermarker=False,
    )


def tiny_animatediff() -> Any:
    from diffusers import AnimateDiffPipeline, MotionAdapter

    adapter = MotionAdapter(
        block_out_channels=_UNET_CHANNELS,
        motion_layers_per_block=1,
        motion_num_attention_heads=2,
        motion_norm_num_groups=_GROUPS,
        motion_max_seq_length=24,
    )
    fill(adapter, "motion")
    tokenizer = clip_tokenizer()
    return AnimateDiffPipeline(
        vae=_vae(),
        text_encoder=_text_encoder("text", tokenizer),
        tokenizer=tokenizer,
        unet=_unet("sd15"),
        motion_adapter=adapter,
        scheduler=_scheduler(),
    )


TINY: Mapping[str, Callable[[], Any]] = {
    "tiny-sd15": tiny_sd15,
    "tiny-sdxl": tiny_sdxl,
    "tiny-animatediff": tiny_animatediff,
}


def normalise(folder: Path) -> None:
    """Take out of the JSON what says where and with which release it was written; the rest in one spelling."""
    for path in folder.rglob("*.json"):
        body = json.loads(path.read_text("utf-8"))
        for field in ("_name_or_path", "_diffusers_version", "transformers_version"):
            body.pop(field, None)
        path.write_text(json.dumps(body, indent=2, sort_keys=True, ensure_ascii=False) + "\n", "utf-8")
    for path in folder.rglob("*.safetensors"):
        path.chmod(0o644)  # written for its owner alone, and a consumer runs as somebody else


def make_tiny(directory: Path) -> dict[str, str]:
    """Write the three pipelines below `directory`, each in a folder of its name; return name -> digest.

    A folder appears whole or not at all; one that is there already is replaced only if its content differs. Blocks
    for some seconds, most of them importing torch.
    """
    go_offline()
    directory.mkdir(parents=True, exist_ok=True)
    digests = {}
    for name, build in TINY.items():
        with tempfile.TemporaryDirectory(prefix=f".{name}.", dir=directory) as scratch:
            made = Path(scratch) / name
            build().save_pretrained(made, safe_serialization=True)
            normalise(made)
            digests[name] = model_digest(made)
            place = directory / name
            if place.exists() and model_digest(place) != digests[name]:
                shutil.rmtree(place)
            if not place.exists():
                made.rename(place)
    return digests
