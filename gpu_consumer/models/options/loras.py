"""LoRAs, merged into the weights once: no step pays for them, and nothing is left that could be switched by mistake.

They are merged on the CPU, whichever the device, so that every consumer has the same weights.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_consumer.models.digests import ModelUnavailable, told, verify
from schemas.config import GenerationConfig

_USUAL_NAME = "pytorch_lora_weights.safetensors"  # what save_lora_weights writes


@dataclass(frozen=True, slots=True)
class Lora:
    """A proven file."""

    file: Path
    scale: float


def find_loras(config: GenerationConfig, models_directory: Path) -> list[Lora]:
    """Those of `config`, each with exactly the content it names. Blocks while they are hashed.

    Raises ModelUnavailable.
    """
    found = []
    for lora in config.loras:
        place = models_directory / lora.name
        if not place.exists():
            raise ModelUnavailable(f"there is no LoRA in {place}; put the file, or a folder with it, there")
        verify(place, lora.digest, "LoRA")
        found.append(Lora(_file(place), lora.scale))
    return found


def _file(place: Path) -> Path:
    """Of `place`, or in it. A pickle, such as a .bin, is none: whoever reads one runs it."""
    if place.is_dir() and (place / _USUAL_NAME).is_file():
        return place / _USUAL_NAME
    files = [place] if place.is_file() else sorted(place.iterdir())
    files = [file for file in files if file.suffix == ".safetensors" and not file.name.startswith(".")]
    if len(files) != 1:
        raise ModelUnavailable(
            f"the LoRA in {place} is not one .safetensors file but {len(files)}; keep the one that is meant there, or "
            f"call it {_USUAL_NAME}"
        )
    return files[0]


def merge_loras(pipe: Any, loras: Sequence[Lora]) -> None:
    """Into the weights of `pipe`, which is on the CPU. Raises ModelUnavailable where one does not fit the model."""
    for number, lora in enumerate(loras):
        name = f"lora-{number}"
        _load(pipe, name, lora.file)
        pipe.set_adapters([name], [lora.scale])
        pipe.fuse_lora(adapter_names=[name], safe_fusing=True)
        pipe.unload_lora_weights()


def _load(pipe: Any, name: str, file: Path) -> None:
    try:
        pipe.load_lora_weights(
            str(file.parent), weight_name=file.name, adapter_name=name, local_files_only=True, use_safetensors=True
        )
        attached = any(name in adapters for adapters in pipe.get_list_adapters().values())
        problem = "" if attached else "none of its weights has a place in the model"
    except Exception as error:  # whatever a damaged file, or another model's, makes the libraries raise
        problem = told(error)
    if problem:
        raise ModelUnavailable(
            f"the LoRA {file} does not fit the {type(pipe).__name__} ({problem}); name one that was trained for it"
        )
