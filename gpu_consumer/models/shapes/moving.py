"""The kept model as an AnimateDiff: its shapes, on frames that hear each other. Nothing is trained; torch is needed."""

from pathlib import Path
from typing import Any

from gpu_consumer.models.offline import go_offline
from gpu_consumer.models.saving import save
from gpu_consumer.models.shapes.kept import KEPT

NAME = "shapes-animatediff"
FRAMES_MAX = 32
# How far each layer draws a frame to the mean of its neighbours. At 0 each frame is a picture of its own, and the shape
# trembles by one pixel; at 0.2 by half of one; from 0.8 on the shapes come apart.
_PULL = 0.2


def add_moving_shapes(directory: Path) -> str:
    """Write the model to `directory`/NAME and return its digest. One that is there is replaced if it differs.

    Blocks for some seconds, most of them importing torch. The kept model must be there: add_shapes says so.
    """
    go_offline()
    return save(_assemble(), directory / NAME)


def _assemble() -> Any:
    import torch
    from diffusers import AnimateDiffPipeline, MotionAdapter, StableDiffusionPipeline

    still = StableDiffusionPipeline.from_pretrained(
        str(KEPT), torch_dtype=torch.float16, local_files_only=True, use_safetensors=True, low_cpu_mem_usage=False
    )
    adapter = MotionAdapter(
        block_out_channels=still.unet.config.block_out_channels,
        motion_layers_per_block=1,
        motion_num_attention_heads=2,
        motion_norm_num_groups=8,
        motion_max_seq_length=FRAMES_MAX,
    ).to(torch.float16)
    _pull_together(adapter)
    return AnimateDiffPipeline(
        vae=still.vae,
        text_encoder=still.text_encoder,
        tokenizer=still.tokenizer,
        unet=still.unet,
        motion_adapter=adapter,
        scheduler=still.scheduler,
    )


def _pull_together(adapter: Any) -> None:
    """Make each module subtract from a frame _PULL of what sets it apart from the mean of all frames.

    Queries and keys of zero attend to all frames alike, so the first attention gives their mean; the block adds it,
    negated, to the frame itself. Its other parts add nothing.
    """
    import torch

    identities = {"proj_in": 1.0, "attn1.to_v": 1.0, "attn1.to_out.0": -1.0, "proj_out": -_PULL}
    with torch.no_grad():
        for name, tensor in adapter.state_dict().items():
            layer, _, kind = name.rpartition(".")
            scale = next((scale for end, scale in identities.items() if layer.endswith(end)), None)
            if scale is not None and kind == "weight":
                tensor.copy_(scale * torch.eye(len(tensor)))
            elif not (layer.endswith(("norm", "norm1")) and kind == "weight"):
                tensor.zero_()
