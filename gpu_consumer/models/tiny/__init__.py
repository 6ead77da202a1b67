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
from gpu_consumer.models.tiny.pipelines import tiny_animatediff, tiny_sd3, tiny_sd15, tiny_sdxl

TINY: Mapping[str, Callable[[], Any]] = {
    "tiny-sd15": tiny_sd15,
    "tiny-sdxl": tiny_sdxl,
    "tiny-sd3": tiny_sd3,
    "tiny-animatediff": tiny_animatediff,
}


def normalise(folder: Path) -> None:
    """Take out of the JSON what says where and with which release it was written; the rest in one spelling."""
    for path in folder.rglob("*.json"):
        body = json.loads(path.read_text("utf-8"))
        for field in ("_name_or_path", "_diffusers_version", "transformers_version", "local_files_only"):
            body.pop(field, None)
        path.write_text(json.dumps(body, indent=2, sort_keys=True, ensure_ascii=False) + "\n", "utf-8")
    for path in folder.rglob("*.safetensors"):
        path.chmod(0o644)  # written for its owner alone, and a consumer runs as somebody else


def make_tiny(directory: Path) -> dict[str, str]:
    """Write the pipelines below `directory`, each in a folder of its name; return name -> digest.

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
