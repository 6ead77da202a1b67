"""Tiny pipelines with the architecture of the real ones: 64 x 64 pictures in milliseconds, and no download.

They draw nothing one would recognise, but every part is real: a text encoder that is heard, guidance that matters, a
decoder that gives many colours. What is built here is byte-identical each time, so its digest can stand in a config.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gpu_consumer.models.offline import go_offline
from gpu_consumer.models.saving import save
from gpu_consumer.models.tiny.pipelines import tiny_animatediff, tiny_sd3, tiny_sd15, tiny_sdxl

TINY: Mapping[str, Callable[[], Any]] = {
    "tiny-sd15": tiny_sd15,
    "tiny-sdxl": tiny_sdxl,
    "tiny-sd3": tiny_sd3,
    "tiny-animatediff": tiny_animatediff,
}


def make_tiny(directory: Path) -> dict[str, str]:
    """Write the pipelines below `directory`, each in a folder of its name; return name -> digest.

    A folder appears whole or not at all; one that is there already is replaced only if its content differs. Blocks
    for some seconds, most of them importing torch.
    """
    go_offline()
    return {name: save(build(), directory / name) for name, build in TINY.items()}
