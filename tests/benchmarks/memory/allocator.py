"""A small model of PyTorch's caching allocator: it rounds, splits and caches blocks, and cannot move what is in use.

Rules from its source (c10/cuda/CUDACachingAllocator.cpp, default settings): sizes are multiples of 512 bytes; up to
1 MiB comes from segments of 2 MiB, less than 10 MiB from segments of 20 MiB, more from a segment of its own, in
multiples of 2 MiB; the smallest free block that is large enough is taken, and split where enough would be left over;
neighbours within a segment merge when both are free; before it gives up, all segments that are wholly free go back to
the device.
"""

from bisect import bisect_left, insort
from dataclasses import dataclass, field

KIB = 1 << 10
MIB = 1 << 20
_ROUND = 512
_SMALL = MIB
_SMALL_SEGMENT = 2 * MIB
_MEDIUM = 10 * MIB
_MEDIUM_SEGMENT = 20 * MIB
_LARGE_ROUND = 2 * MIB


class OutOfMemory(Exception):
    """No block, and the device has nothing left."""


@dataclass(slots=True, eq=False)
class Block:
    """A part of a segment. Its neighbours there make up the rest of it."""

    size: int
    small: bool
    number: int
    used: bool = True
    before: "Block | None" = None
    after: "Block | None" = None

    @property
    def whole(self) -> bool:
        return self.before is None and self.after is None

    @property
    def rank(self) -> tuple[int, int]:
        return self.size, self.number


@dataclass(slots=True)
class Allocator:
    """`elsewhere`: bytes of the device that others hold; a caller may change it, to what is free at most."""

    capacity: int
    elsewhere: int = 0
    allocated: int = 0
    reserved: int = 0
    peak: int = 0
    _free: dict[bool, list[tuple[int, int]]] = field(default_factory=lambda: {True: [], False: []})
    _blocks: dict[int, Block] = field(default_factory=dict)
    _numbers: int = 0

    @property
    def free(self) -> int:
        """Of the device: neither ours nor anybody else's."""
        return self.capacity - self.elsewhere - self.reserved

    @property
    def split(self) -> int:
        """Unused bytes in segments that are in use."""
        return sum(block.size for block in self._blocks.values() if not block.used and not block.whole)

    def allocate(self, bytes_: int) -> Block:
        """Raises OutOfMemory; then nothing has changed but that unused segments are the device's again."""
        size = max(_ROUND, _up(bytes_, _ROUND))
        small = size <= _SMALL
        block = self._fit(size, small) or self._segment(size, small)
        if block is None:
            self.empty_cache()
            block = self._segment(size, small)
        if block is None:
            raise OutOfMemory(f"{bytes_} bytes wanted, {self.free} are free")
        self._split(block, size)
        block.used = True
        self.allocated += block.size
        self.peak = max(self.peak, self.allocated)
        return block

    def release(self, block: Block) -> None:
        assert block.used, "released twice"
        self.allocated -= block.size
        block.used = False
        for other in (block.before, block.after):
            if other is not None and not other.used:
                self._forget(other)
                block.size += other.size
                if other is block.before:
                    block.before = other.before
                    if block.before:
                        block.before.after = block
                else:
                    block.after = other.after
                    if block.after:
                        block.after.before = block
        insort(self._free[block.small], block.rank)

    def empty_cache(self) -> None:
        """Give every segment that is wholly free back to the device."""
        for block in [each for each in self._blocks.values() if not each.used and each.whole]:
            self._forget(block)
            self.reserved -= block.size

    def check(self) -> None:
        """What is in use, free and reserved adds up, and no two free neighbours are apart."""
        blocks = self._blocks.values()
        assert sum(block.size for block in blocks) == self.reserved
        assert sum(block.size for block in blocks if block.used) == self.allocated
        assert sorted(block.rank for block in blocks if not block.used) == sorted(self._free[True] + self._free[False])
        assert all(block.used or block.after is None or block.after.used for block in blocks)
        assert 0 <= self.allocated <= self.reserved <= self.capacity - self.elsewhere

    def _fit(self, size: int, small: bool) -> Block | None:
        ranks = self._free[small]
        at = bisect_left(ranks, (size, 0))
        return self._blocks[ranks.pop(at)[1]] if at < len(ranks) else None

    def _segment(self, size: int, small: bool) -> Block | None:
        wanted = _SMALL_SEGMENT if small else _MEDIUM_SEGMENT if size < _MEDIUM else _up(size, _LARGE_ROUND)
        if wanted > self.free:
            return None
        self.reserved += wanted
        return self._new(wanted, small)

    def _split(self, block: Block, size: int) -> None:
        left = block.size - size
        if left < _ROUND if block.small else left <= _SMALL:
            return
        rest = self._new(left, block.small)
        rest.used = False
        rest.before, rest.after = block, block.after
        if rest.after:
            rest.after.before = rest
        block.after, block.size = rest, size
        insort(self._free[rest.small], rest.rank)

    def _new(self, size: int, small: bool) -> Block:
        self._numbers += 1
        block = Block(size, small, self._numbers)
        self._blocks[block.number] = block
        return block

    def _forget(self, block: Block) -> None:
        ranks = self._free[block.small]
        del ranks[bisect_left(ranks, block.rank)]
        del self._blocks[block.number]


def _up(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple
