"""A pipeline from a local folder, by the real from_pretrained, once its content is proven. No network."""

import gc
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from gpu_consumer.models.backends import check_backends
from gpu_consumer.models.digests import ModelUnavailable, told, verify
from gpu_consumer.models.families import FAMILIES, Family
from gpu_consumer.models.offline import go_offline
from gpu_consumer.models.options.attention import choose_attention
from gpu_consumer.models.options.compiling import compile_parts
from gpu_consumer.models.options.decoding import cut_decoding
from gpu_consumer.models.options.loras import Lora, find_loras, merge_loras
from gpu_consumer.models.options.offload import device_bytes, settle
from schemas.config import GenerationConfig


@dataclass(slots=True)
class Loaded:
    """A pipeline on its device. `scheduler_config`: the model's own noise schedule, from which each call's is made.

    `weights_bytes`: on the device, at most at one time. `offloaded`: hooks move its weights, and nobody else may.
    `shared`: other processes have the same weights, in the same memory, and they stay there.
    """

    key: str
    pipe: Any
    family: Family
    scheduler_config: Mapping[str, Any]
    weights_bytes: int
    seconds: float
    offloaded: bool = False
    shared: bool = False


def load(
    config: GenerationConfig, models_directory: Path, device: str, *, share: Callable[[Any], Any] | None = None
) -> Loaded:
    """Load the model of `config` onto `device`, as its options want it. Blocks for as long as its weights take to read
    and to hash; what is to be compiled is compiled at the first call. `share` brings a pipeline there in its own way.

    Raises ModelUnavailable, in a sentence with the cure, where the folder or a LoRA is missing, holds another content,
    is no pipeline of the family, or does not fit, and BackendMissing where a library is not installed;
    torch.OutOfMemoryError is not raised. After a failure nothing stays loaded.
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
    loras = find_loras(config, models_directory)
    check_backends(config, device)
    problem = None
    try:
        pipe = _read(folder, family, config.dtype)
        _check_class(pipe, family, config, folder)
        pipe = _arranged(pipe, config, loras, share or (lambda made: settle(made, config, device)))
        verify(folder, config.model.digest)  # again, for it may have changed since, and now no file is needed any more
        find_loras(config, models_directory)
    except torch.AcceleratorError:  # the device is lost, not the model
        raise
    except ModelUnavailable as error:
        problem = str(error)
    except Exception as error:  # whatever a damaged folder makes the libraries raise
        problem = f"the model in {folder} cannot be loaded ({told(error)}); put a complete {config.family} there"
    if problem is not None:  # outside of `except`: the error's frames held the half-loaded weights
        pipe = None
        gc.collect()
        raise ModelUnavailable(problem)
    return Loaded(
        key=config.model_key,
        pipe=pipe,
        family=family,
        scheduler_config=dict(pipe.scheduler.config),
        weights_bytes=device_bytes(pipe, config),
        seconds=time.monotonic() - started,
        offloaded=config.offload != "none",
        shared=share is not None,
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
        **_left_out(folder),
        **family.load_options,
    )
    pipe.set_progress_bar_config(disable=True)
    _convert(pipe, getattr(torch, dtype))
    return pipe


def _convert(pipe: Any, dtype: torch.dtype) -> None:
    """Models that from_pretrained left in the type of their file: without accelerate it assigns all tensors of one as
    they are if the first of them, as the position code of SD3's transformer, has the model's type already."""
    from diffusers import ModelMixin

    for part in pipe.components.values():
        if isinstance(part, ModelMixin) and part.dtype != dtype and not part._keep_in_fp32_modules:
            part.to(dtype)


def _check_class(pipe: Any, family: Family, config: GenerationConfig, folder: Path) -> None:
    found = type(pipe).__name__
    if found != family.pipeline_class:
        raise ModelUnavailable(
            f"the model in {folder} is a {found}, but {config.label} is of the family {config.family}, "
            f"a {family.pipeline_class}; name the right model in the config"
        )


def _arranged(pipe: Any, config: GenerationConfig, loras: Sequence[Lora], place: Callable[[Any], Any]) -> Any:
    merge_loras(pipe, loras)
    choose_attention(pipe, config)
    cut_decoding(pipe, config)
    pipe = place(pipe)
    compile_parts(pipe, config)
    return pipe


def _left_out(folder: Path) -> dict[str, None]:
    """Parts that the folder says it has none of, as an SD3 without T5 does: from_pretrained must be told again."""
    index: dict[str, Any] = json.loads((folder / "model_index.json").read_text("utf-8"))
    return {name: None for name, part in index.items() if part == [None, None]}
