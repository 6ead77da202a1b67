"""The parts of the tiny pipelines, their weights made of their names."""

from typing import Any

from gpu_consumer.models.tokenizer import CONTEXT
from gpu_consumer.models.weights import fill

TEXT_WIDTH = 32
JOINT_WIDTH = 2 * TEXT_WIDTH  # both CLIP encoders, side by side
GROUPS = 8
UNET_CHANNELS = (16, 32)

# Random attention averages 77 tokens into one grey mean. Sharper keys and louder text make one word change the picture.
_UNET_GAINS = {"attn2.to_q": 2.0, "attn2.to_k": 2.0, "attn2.to_out": 3.0}
_TEXT_GAINS = {"q_proj": 2.0, "k_proj": 2.0}
_TRANSFORMER_GAINS = {"add_k_proj": 2.0, "add_v_proj": 3.0}


def vae(**different: Any) -> Any:
    from diffusers import AutoencoderKL

    made = AutoencoderKL(
        **{
            "block_out_channels": (8, 8, 16, 16),  # four levels: eight pixels a latent, as in the real ones
            "down_block_types": ("DownEncoderBlock2D",) * 4,
            "up_block_types": ("UpDecoderBlock2D",) * 4,
            "latent_channels": 4,
            "norm_num_groups": 4,
            "sample_size": 64,
            "force_upcast": False,
            **different,
        }
    )
    fill(made, "vae")
    return made


def clip_encoder(tokenizer: Any, width: int, *, projected: bool = False, **different: Any) -> Any:
    """CLIP's text encoder for the words of `tokenizer`, with whatever weights torch begins with."""
    from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

    config = CLIPTextConfig(
        **{
            "vocab_size": len(tokenizer),
            "hidden_size": width,
            "intermediate_size": 2 * width,
            "projection_dim": width,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "max_position_embeddings": CONTEXT,
            "bos_token_id": tokenizer.bos_token_id,
            "eos_token_id": tokenizer.eos_token_id,
            "pad_token_id": tokenizer.pad_token_id,
            **different,
        }
    )
    return (CLIPTextModelWithProjection if projected else CLIPTextModel)(config)


def text_encoder(seed: str, tokenizer: Any, *, projected: bool = False) -> Any:
    encoder = clip_encoder(tokenizer, TEXT_WIDTH, projected=projected)
    fill(encoder, seed, _TEXT_GAINS)
    return encoder.eval()


def t5_encoder(seed: str, tokenizer: Any) -> Any:
    from transformers import T5Config, T5EncoderModel

    encoder = T5EncoderModel(
        T5Config(
            vocab_size=len(tokenizer),
            d_model=JOINT_WIDTH,
            d_kv=16,
            d_ff=JOINT_WIDTH,
            num_layers=1,
            num_heads=4,
            feed_forward_proj="gated-gelu",
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
        )
    )
    fill(encoder, seed)
    return encoder.eval()


def unet(seed: str, **different: Any) -> Any:
    from diffusers import UNet2DConditionModel

    made = UNet2DConditionModel(
        **{
            "sample_size": 8,
            "block_out_channels": UNET_CHANNELS,
            "layers_per_block": 1,
            "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
            "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
            "cross_attention_dim": TEXT_WIDTH,
            "attention_head_dim": 4,
            "norm_num_groups": GROUPS,
            **different,
        }
    )
    fill(made, seed, _UNET_GAINS)
    return made


def transformer(seed: str) -> Any:
    from diffusers import SD3Transformer2DModel

    made = SD3Transformer2DModel(
        sample_size=8,
        patch_size=2,
        in_channels=16,
        num_layers=2,
        attention_head_dim=8,
        num_attention_heads=4,
        joint_attention_dim=JOINT_WIDTH,
        caption_projection_dim=4 * 8,
        pooled_projection_dim=JOINT_WIDTH,
        out_channels=16,
        pos_embed_max_size=16,
    )
    fill(made, seed, _TRANSFORMER_GAINS)
    return made


def scheduler() -> Any:
    from diffusers import DDIMScheduler

    return DDIMScheduler(
        beta_start=0.00085,
        beta_end=0.012,
        beta_schedule="scaled_linear",
        clip_sample=False,
        set_alpha_to_one=False,
        steps_offset=1,
    )


def flow_scheduler() -> Any:
    from diffusers import FlowMatchEulerDiscreteScheduler

    return FlowMatchEulerDiscreteScheduler(shift=3.0)
