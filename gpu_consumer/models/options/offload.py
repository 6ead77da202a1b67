"""Weights that wait in host memory, and are on the device while they are used."""

from collections.abc import Iterable
from typing import Any

import torch

from gpu_consumer.models.options.parts import modules
from schemas.config import GenerationConfig


def settle(pipe: Any, config: GenerationConfig, device: str) -> Any:
    """The pipeline where it is to run: wholly on `device`, or with hooks of accelerate that bring its weights there."""
    if device == "cpu" or config.offload != "none":
        _let_go_of_files(pipe)
    if config.offload == "model":
        pipe.enable_model_cpu_offload(device=device)
    elif config.offload == "sequential":
        pipe.enable_sequential_cpu_offload(device=device)
    else:
        pipe = pipe.to(device)
    return pipe


def _let_go_of_files(pipe: Any) -> None:
    """Weights that stay on the host were read by mapping their files: whoever wrote over one would change a model that
    was proven, and whoever cut it short would end the process."""
    for part in modules(pipe):
        for tensor in (*part.parameters(), *part.buffers()):
            tensor.data = tensor.data.clone()


def device_bytes(pipe: Any, config: GenerationConfig) -> int:
    """Of weights, at most at one time, on the device: all of them, of the largest part, or of the largest layer."""
    parts = modules(pipe)
    if config.offload == "model":
        return max(_bytes(part.modules()) for part in parts)
    if config.offload == "sequential":
        return max(_bytes([layer]) for part in parts for layer in part.modules())
    return sum(_bytes(part.modules()) for part in parts)


def _bytes(layers: Iterable[torch.nn.Module]) -> int:
    own = [tensor for layer in layers for tensor in (*layer.parameters(False), *layer.buffers(False))]
    return sum(tensor.numel() * tensor.element_size() for tensor in {id(tensor): tensor for tensor in own}.values())
