"""One copy of the weights for all engine processes of a device: the first of them lends, the others borrow.

The first loads its preload list into blocks that others can open (on a card by CUDA IPC, on the CPU in memory without
a name) and writes on a board, which every process of the team has from its parent, how. Nobody lets go of a model that
is shared while the team lives, and a team lives and dies as one: so whoever lends outlives whoever borrows, as CUDA
wants it, and no block is ever given to something else beneath a borrower.
"""

import fcntl
import os
import pickle
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch.multiprocessing.reductions import reduce_tensor

from gpu_consumer.engine.blocks import Part, parts_of

Handle: TypeAlias = tuple[Callable[..., torch.Tensor], tuple[Any, ...]]  # a block, to be opened in another process


class Shelf:
    """One process's side of it. `lends`: it came first, and what it loads is for all until it has announced it.

    For one thread. `board`: a descriptor of memory, empty where nobody has announced anything.
    """

    def __init__(self, board: int) -> None:
        self._board = board
        self.lends = os.fstat(board).st_size == 0
        self._handles: dict[str, list[Handle]] = {} if self.lends else pickle.loads(_read(board))  # noqa: S301 - ours

    def has(self, key: str) -> bool:
        """A model of this key is there to be borrowed."""
        return not self.lends and key in self._handles

    def settle(self, key: str, pipe: Any, device: str) -> Any:
        """`pipe`, which is on the host, on `device`: its weights are those that are shared. Blocks for a copy at most.

        Raises torch.OutOfMemoryError, and whatever CUDA raises where memory cannot be shared.
        """
        parts = parts_of(pipe)
        if self.lends:
            self._handles[key] = _lend(parts, device)
        else:
            _borrow(parts, self._handles[key])
        return pipe

    def announce(self) -> None:
        """What was lent so far is there for the others; nothing more is lent."""
        if self.lends:
            _write(self._board, pickle.dumps(self._handles))
            self.lends = False


def _lend(parts: Sequence[Part], device: str) -> list[Handle]:
    """Move the weights into blocks that are to be shared; how to open them."""
    handles: list[Handle] = []
    for part in parts:
        block, handle = _on_card(part) if device == "cuda" else _in_memory(part)
        part.point_to(block)
        handles.append(handle)
    if device == "cuda":
        torch.cuda.synchronize()
    return handles


def _borrow(parts: Sequence[Part], handles: Sequence[Handle]) -> None:
    blocks = [opened(*arguments) for opened, arguments in handles]
    assert [block.numel() for block in blocks] == [part.bytes for part in parts], "it was laid out otherwise there"
    for part, block in zip(parts, blocks, strict=True):
        part.point_to(block)


def _on_card(part: Part) -> tuple[torch.Tensor, Handle]:
    block = torch.empty(part.bytes, dtype=torch.uint8, device="cuda")
    part.fill(block)
    handle: Handle = reduce_tensor(block)  # type: ignore[no-untyped-call]
    return block, handle


def _in_memory(part: Part) -> tuple[torch.Tensor, Handle]:
    """The descriptor stays open for as long as this process lives: others open it through us."""
    descriptor = os.memfd_create("kiln-weights", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, part.bytes)
    path = f"/proc/{os.getpid()}/fd/{descriptor}"
    if part.bytes:
        part.fill(torch.from_file(path, shared=True, size=part.bytes, dtype=torch.uint8))
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK)
    return _mapped(path, part.bytes), (_mapped, (path, part.bytes))


def _mapped(path: str, size: int) -> torch.Tensor:
    """Shared until somebody writes: who does so by mistake gets a copy of the page, and harms nobody else."""
    if not size:
        return torch.empty(0, dtype=torch.uint8)
    return torch.from_file(path, shared=False, size=size, dtype=torch.uint8)


def _read(descriptor: int) -> bytes:
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0)


def _write(descriptor: int, data: bytes) -> None:
    written = os.pwrite(descriptor, data, 0)
    assert written == len(data), "memory takes all of it or fails"
