"""A pipeline from a local folder, by the real from_pretrained, once its content is proven. No network."""

import gc
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from gpu_consumer.models.digests import ModelUnavailable, verify
from gpu_consumer.models.families import FAMILIES, Family
from gpu_consumer.models.offline import go_offline
from schemas.config import GenerationConfig


@dataclass(slots=True)
class Loaded:
    """A pipeline on its device. `scheduler_config`: the model's own noise schedule, from which each call's is made."""

    key: str
    pipe: Any
    family: Family
    scheduler_config: Mapping[str, Any]
    weights_bytes: int
    seconds: float


def load(config: GenerationConfig, models_directory: Path, device: str) -> Loaded:
    """Load the model of `config` onto `device`. Blocks for as long as its weights take to read and to hash.

    Raises ModelUnavailable, in a sentence with the cure, where the folder is missing, holds another content, is no
    pipeline of the family, or does not fit; torch.OutOfMemoryError is not raised. After a failure nothing stays loaded.
    """
    started = time.monotonic()
    go_offline()
    family = FAMILIES.get(config.family)
    if family is None:
        raise ModelUnavailable(
            f"the family {config.family} of {config.label} is not served by this release; "
            f"served are {', '.join(FAMILIES)}"
        )
    folder = models_directory / config.model.name
    verify(folder, config.model.digest)
    problem = None
    try:
        pipe = _read(folder, family, config.dtype).to(device)
    except torch.AcceleratorError:  # the device is lost, not the model
        raise
    except Exception as error:  # whatever a damaged folder makes the libraries raise
        problem = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    if problem is not None:  # outside of `except`: the error's frames held the half-loaded weights
        gc.collect()
        raise ModelUnavailable(
            f"the model in {folder} cannot be loaded ({problem}); put a complete {config.family} there"
        )
    found = type(pipe).__name__
    if found != family.pipeline_class:
        raise ModelUnavailable(
            f"the model in {folder} is a {found}, but {config.label} is of the family {config.family}, "
            f"a {family.pipeline_class}; name the right model in the config"
        )
    return Loaded(
        key=config.model_key,
        pipe=pipe,
        family=family,
        scheduler_config=dict(pipe.scheduler.config),
        weights_bytes=_weights_bytes(pipe),
        seconds=time.monotonic() - started,
    )


def _read(folder: Path, family: Family, dtype: str) -> Any:
    from diffusers import DiffusionPipeline
    from diffusers.utils import is_accelerate_available

    pipe = DiffusionPipeline.from_pretrained(
        str(folder),
        torch_dtype=getattr(torch, dtype),
        local_files_only=True,
        use_safetensors=True,
        low_cpu_mem_usage=is_accelerate_available(),
        **family.load_options,
    )
    pipe.set_progress_bar_config(disable=True)
    return pipe


def _weights_bytes(pipe: Any) -> int:
    modules = [part for part in pipe.components.values() if isinstance(part, torch.nn.Module)]
    tensors = [tensor for module in modules for tensor in (*module.parameters(), *module.buffers())]
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
