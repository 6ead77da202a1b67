"""What a batch asks of the allocator: a model of a transformer without fused attention, in two bytes a number.

So that memory depends on the size of a picture and on the length of its prompt, both more than linearly. All of it is
invented but the order of things; what is under test sees no more of it than its peaks.
"""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

from tests.benchmarks.memory.allocator import Allocator, Block

# Seconds a step of a 512-pixel transformer on one H200, by pictures in the batch; beyond the last, and for larger
# pictures, by as many of them as make the same pixels.
STEP_SECONDS = {1: 0.167, 2: 0.183, 3: 0.186, 4: 0.240, 8: 0.425, 16: 0.832}
STEPS = 30
_NUMBER = 2  # bytes
_ROWS = 2  # a picture is guided: with its prompt and without
_WIDTH = 1536
_HEADS = 24
_TEXT_WIDTH = 4096
_TEXTS_KEPT = 64
_SIDE_A_TOKEN = 16  # pixels


@dataclass(frozen=True, slots=True)
class Wish:
    """One picture. `tokens`: of its prompt."""

    number: int
    arrival: float
    side: int
    tokens: int

    @property
    def kind(self) -> str:
        return f"{self.side}x{self.side}"


def batch_seconds(slots: int, side: int) -> float:
    """Of all its steps, by interpolation in the table."""
    pictures = slots * (side / 512) ** 2
    known = sorted(STEP_SECONDS)
    if pictures >= known[-1]:
        return STEPS * STEP_SECONDS[known[-1]] * pictures / known[-1]
    right = next(each for each in known if each > pictures)
    left = max((each for each in known if each <= pictures), default=None)
    if left is None:
        return STEPS * STEP_SECONDS[right]
    share = (pictures - left) / (right - left)
    return STEPS * (STEP_SECONDS[left] + share * (STEP_SECONDS[right] - STEP_SECONDS[left]))


class Engine:
    """Holds weights, the rows of the last texts, and the pixels of the last batch while they are encoded."""

    def __init__(self, allocator: Allocator, weights: Iterable[int]) -> None:
        self.allocator = allocator
        self._weights = [allocator.allocate(bytes_) for bytes_ in weights]
        self.weights_bytes = allocator.allocated
        self._texts: OrderedDict[int, Block] = OrderedDict()
        self._pixels: list[Block] = []

    def run(self, wishes: list[Wish], slots: int) -> int:
        """Make a batch, padded to `slots`; its peak beside the weights. Raises OutOfMemory; nothing of it is left then,
        but for texts that were encoded."""
        assert 1 <= len(wishes) <= slots
        held: list[Block] = []
        self.allocator.peak = self.allocator.allocated
        try:
            self._make(wishes, slots, held)
        finally:
            for block in held:
                self.allocator.release(block)
        return self.allocator.peak - self.weights_bytes

    def tidy(self) -> None:
        """Forget what is only kept to save time, and cache nothing."""
        while self._texts:
            self.allocator.release(self._texts.popitem()[1])
        self.allocator.empty_cache()

    def _make(self, wishes: list[Wish], slots: int, held: list[Block]) -> None:
        def take(numbers: int) -> Block:
            held.append(self.allocator.allocate(_NUMBER * numbers))
            return held[-1]

        def give(*blocks: Block) -> None:
            for block in blocks:
                held.remove(block)
                self.allocator.release(block)

        side = wishes[0].side
        longest = max(wish.tokens for wish in wishes)
        rows, tokens = _ROWS * slots, (side // _SIDE_A_TOKEN) ** 2 + longest
        self._encode(wishes)
        take(rows * longest * _TEXT_WIDTH)  # what conditions them, until the end
        take(slots * 16 * (side // 8) ** 2)  # latents
        for pixels in self._pixels:
            self.allocator.release(pixels)
        self._pixels.clear()
        for _ in range(2):  # every step asks for the same
            stream = take(rows * tokens * _WIDTH)
            normed = take(rows * tokens * _WIDTH)
            parts = [take(rows * tokens * _WIDTH) for _ in range(3)]
            scores = take(rows * _HEADS * tokens**2)
            weights = take(rows * _HEADS * tokens**2)
            give(scores)
            mixed = take(rows * tokens * _WIDTH)
            give(weights, *parts, normed)
            inner = take(rows * tokens * 4 * _WIDTH)
            give(inner, mixed, stream)
        for channels in (512, 256, 128):  # the decoder, one picture at a time
            give(take(channels * side**2 // 4), take(channels * side**2 // 4))
        self._pixels.append(self.allocator.allocate(3 * slots * side**2))

    def _encode(self, wishes: list[Wish]) -> None:
        for wish in wishes:
            working = self.allocator.allocate(_NUMBER * 8 * wish.tokens * _TEXT_WIDTH)
            try:
                self._texts[wish.number] = self.allocator.allocate(_NUMBER * wish.tokens * _TEXT_WIDTH)
            finally:
                self.allocator.release(working)
            while len(self._texts) > _TEXTS_KEPT:
                self.allocator.release(self._texts.popitem(last=False)[1])
