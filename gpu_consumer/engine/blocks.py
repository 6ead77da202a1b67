"""All weights of a module in one block of memory, each at a place of its own."""

from dataclasses import dataclass
from typing import Any

import torch

from gpu_consumer.models.options.parts import modules

_ALIGNMENT = 512  # bytes: what CUDA's allocator gives, which kernels choose by


@dataclass(frozen=True, slots=True)
class Part:
    """One module's tensors, each with its offset. `bytes`: of a block that holds them."""

    bytes: int
    places: tuple[tuple[torch.Tensor, int], ...]

    def fill(self, block: torch.Tensor) -> None:
        """Copy what the tensors hold into `block`, uint8 on any device."""
        for tensor, offset in self.places:
            _view(block, tensor, offset).copy_(tensor.data)

    def point_to(self, block: torch.Tensor) -> None:
        """From here on the tensors are what `block` holds, and are where it is."""
        for tensor, offset in self.places:
            tensor.data = _view(block, tensor, offset)


def parts_of(pipe: Any) -> list[Part]:
    """One for each module of a pipeline, in its order."""
    return [_part(module) for module in modules(pipe)]


def _part(module: torch.nn.Module) -> Part:
    tensors = {id(tensor): tensor for tensor in (*module.parameters(), *module.buffers())}
    places = []
    size = 0
    for tensor in tensors.values():
        places.append((tensor, size))
        size += -(-_extent(tensor) // _ALIGNMENT) * _ALIGNMENT
    return Part(size, tuple(places))


def _extent(tensor: torch.Tensor) -> int:
    """Bytes from the first element to behind the last, gaps of its strides included."""
    if not tensor.numel():
        return 0
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return (last + 1) * tensor.element_size()


def _view(block: torch.Tensor, tensor: torch.Tensor, offset: int) -> torch.Tensor:
    whole = block[offset : offset + _extent(tensor)].view(tensor.dtype)
    return whole.as_strided(tensor.shape, tensor.stride())
