"""The tiny pipelines, put together as diffusers does it."""

from typing import Any

from gpu_consumer.models.tiny.parts import (
    GROUPS,
    TEXT_WIDTH,
    UNET_CHANNELS,
    flow_scheduler,
    scheduler,
    t5_encoder,
    text_encoder,
    transformer,
    unet,
    vae,
)
from gpu_consumer.models.tokenizer import clip_tokenizer, t5_tokenizer
from gpu_consumer.models.weights import fill


def tiny_sd15() -> Any:
    from diffusers import StableDiffusionPipeline

    tokenizer = clip_tokenizer()
    return StableDiffusionPipeline(
        vae=vae(),
        text_encoder=text_encoder("text", tokenizer),
        tokenizer=tokenizer,
        unet=unet("sd15"),
        scheduler=scheduler(),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )


def tiny_sdxl() -> Any:
    from diffusers import StableDiffusionXLPipeline

    tokenizer = clip_tokenizer()
    built = unet(
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
        vae=vae(),
        text_encoder=text_encoder("text", tokenizer),
        text_encoder_2=text_encoder("text-2", tokenizer, projected=True),
        tokenizer=tokenizer,
        tokenizer_2=clip_tokenizer(),
        unet=built,
        scheduler=scheduler(),
        add_watermarker=False,
    )


def tiny_sd3() -> Any:
    from diffusers import StableDiffusion3Pipeline

    tokenizer, t5 = clip_tokenizer(), t5_tokenizer()
    return StableDiffusion3Pipeline(
        transformer=transformer("sd3"),
        scheduler=flow_scheduler(),
        vae=vae(
            latent_channels=16,
            scaling_factor=1.5305,
            shift_factor=0.0609,
            use_quant_conv=False,
            use_post_quant_conv=False,
        ),
        text_encoder=text_encoder("text", tokenizer, projected=True),
        tokenizer=tokenizer,
        text_encoder_2=text_encoder("text-2", tokenizer, projected=True),
        tokenizer_2=clip_tokenizer(),
        text_encoder_3=t5_encoder("text-3", t5),
        tokenizer_3=t5,
    )


def tiny_animatediff() -> Any:
    from diffusers import AnimateDiffPipeline, MotionAdapter

    adapter = MotionAdapter(
        block_out_channels=UNET_CHANNELS,
        motion_layers_per_block=1,
        motion_num_attention_heads=2,
        motion_norm_num_groups=GROUPS,
        motion_max_seq_length=24,
    )
    fill(adapter, "motion")
    tokenizer = clip_tokenizer()
    return AnimateDiffPipeline(
        vae=vae(),
        text_encoder=text_encoder("text", tokenizer),
        tokenizer=tokenizer,
        unet=unet("sd15"),
        motion_adapter=adapter,
        scheduler=scheduler(),
    )
