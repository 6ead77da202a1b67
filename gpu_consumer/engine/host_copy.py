"""Weights that left the device, kept in host memory, so that coming back is one copy a part and no reading of files."""

from typing import Any

import torch

from gpu_consumer.engine.blocks import parts_of


class HostCopy:
    """Of a pipeline that is on its device. Weights do not change while they serve, so it is made once.

    A block a module, not a tensor: large copies run at the speed of the bus, and the device's memory is given back in
    few pieces. `pinned`: page-locked, without which a card cannot copy by itself.
    """

    def __init__(self, pipe: Any, *, pinned: bool) -> None:
        """Blocks for the copy from the device. Raises MemoryError or RuntimeError where the host has too little."""
        self._parts = parts_of(pipe)
        self._blocks = [torch.empty(part.bytes, dtype=torch.uint8, pin_memory=pinned) for part in self._parts]
        for part, block in zip(self._parts, self._blocks, strict=True):
            part.fill(block)

    @property
    def bytes(self) -> int:
        return sum(part.bytes for part in self._parts)

    def leave(self) -> None:
        """Point every weight of the pipeline at the host; the device's memory is free when nobody else looks at it."""
        self._point_to(self._blocks)

    def enter(self, device: str) -> None:
        """Bring every weight to `device`; blocks for it. After a torch.OutOfMemoryError they are still on the host."""
        blocks = [block.to(device, non_blocking=True, copy=True) for block in self._blocks]
        self._point_to(blocks)  # while they are on their way
        if device == "cuda":
            torch.cuda.synchronize()

    def _point_to(self, blocks: list[torch.Tensor]) -> None:
        for part, block in zip(self._parts, blocks, strict=True):
            part.point_to(block)
