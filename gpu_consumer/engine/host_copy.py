"""Weights that left the device, kept in host memory, so that coming back is one copy a part and no reading of files."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

_ALIGNMENT = 512  # bytes: what CUDA's allocator gives, which kernels choose by


@dataclass(frozen=True, slots=True)
class _Part:
    """One module: a block on the host, and each tensor's place in it."""

    block: torch.Tensor
    places: tuple[tuple[torch.Tensor, int], ...]


class HostCopy:
    """Of a pipeline that is on its device. Weights do not change while they serve, so it is made once.

    A block a module, not a tensor: large copies run at the speed of the bus, and the device's memory is given back in
    few pieces. `pinned`: page-locked, without which a card cannot copy by itself.
    """

    def __init__(self, pipe: Any, *, pinned: bool) -> None:
        """Blocks for the copy from the device. Raises MemoryError or RuntimeError where the host has too little."""
        self._parts = [_copied(module, pinned) for module in _modules(pipe)]

    @property
    def bytes(self) -> int:
        return sum(part.block.nbytes for part in self._parts)

    def leave(self) -> None:
        """Point every weight of the pipeline at the host; the device's memory is free when nobody else looks at it."""
        for part in self._parts:
            _place(part, part.block)

    def enter(self, device: str) -> None:
        """Bring every weight to `device`; blocks for it. After a torch.OutOfMemoryError they are still on the host."""
        blocks = [part.block.to(device, non_blocking=True, copy=True) for part in self._parts]
        if device == "cuda":
            torch.cuda.synchronize()
        for part, block in zip(self._parts, blocks, strict=True):
            _place(part, block)


def _modules(pipe: Any) -> Iterator[torch.nn.Module]:
    """Each once, though a pipeline may use one twice."""
    yield from {id(part): part for part in pipe.components.values() if isinstance(part, torch.nn.Module)}.values()


def _copied(module: torch.nn.Module, pinned: bool) -> _Part:
    tensors = {id(tensor): tensor for tensor in (*module.parameters(), *module.buffers())}
    places = []
    size = 0
    for tensor in tensors.values():
        places.append((tensor, size))
        size += -(-_extent(tensor) // _ALIGNMENT) * _ALIGNMENT
    block = torch.empty(size, dtype=torch.uint8, pin_memory=pinned)
    for tensor, offset in places:
        _view(block, tensor, offset).copy_(tensor.data)
    return _Part(block, tuple(places))


def _extent(tensor: torch.Tensor) -> int:
    """Bytes from the first element to behind the last, gaps of its strides included."""
    if not tensor.numel():
        return 0
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return (last + 1) * tensor.element_size()


def _place(part: _Part, block: torch.Tensor) -> None:
    for tensor, offset in part.places:
        tensor.data = _view(block, tensor, offset)


def _view(block: torch.Tensor, tensor: torch.Tensor, offset: int) -> torch.Tensor:
    whole = block[offset : offset + _extent(tensor)].view(tensor.dtype)
    return whole.as_strided(tensor.shape, tensor.stride())
