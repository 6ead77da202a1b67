"""The stress matrix: concurrency x prompt length x size x family, on the tiny models, through the real step loop.

What a batch takes is measured from live tensors. gpu_consumer.memory sees it once, with the shortest prompts, and
predicts what it takes again, with prompts of every length. What is left when a session has ended is measured without
the garbage collector's help: nothing may lie in a cycle.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import count, product
from pathlib import Path

from gpu_consumer.engine.device import CpuDevice
from gpu_consumer.engine.protocol import Item
from gpu_consumer.engine.stepwise.loop import Stepwise
from gpu_consumer.engine.stepwise.request import Request, Shape
from gpu_consumer.memory import PeakMemory
from gpu_consumer.models.families import FAMILIES
from gpu_consumer.models.loading import Loaded
from tests.benchmarks.memory.live import LiveTensors
from tests.stepwise import FRAMES, ROOMY, fresh

CONCURRENCY = (1, 2, 4, 8)
WORDS = (2, 30, 120)  # the last is longer than what any of the text encoders reads
SIDES = (64, 96)
_ROUNDS = 2
_STEPS = 3

_number = count()


@dataclass(frozen=True, slots=True)
class Cell:
    family: str
    side: int
    words: int
    concurrency: int

    @property
    def kind(self) -> str:
        return f"{self.family} {self.side}x{self.side}"


@dataclass(slots=True)
class Matrix:
    """Bytes beside the weights, of each cell: its peak in each round, and what was left behind when all had ended."""

    peaks: dict[Cell, list[int]] = field(default_factory=dict)
    left: dict[Cell, int] = field(default_factory=dict)

    @property
    def apart(self) -> float:
        """How far a round is from what was predicted by the first with the shortest prompts, as a part of it, at most.

        A cell's memory a request is its peak divided by its concurrency, in both, so this is as far for a request.
        """
        memory = self._taught(CONCURRENCY)
        return max(abs(measured / predicted - 1) for measured, predicted in self._pairs(memory))

    @property
    def too_low(self) -> float:
        """The same, of what is predicted too low where only the smallest and the largest concurrency were seen.

        Peaks are the largest of several stages, each linear in the slots: between two known ones no higher than a line.
        """
        memory = self._taught((min(CONCURRENCY), max(CONCURRENCY)))
        return max(measured / predicted - 1 for measured, predicted in self._pairs(memory))

    def _pairs(self, memory: PeakMemory) -> Iterator[tuple[int, int]]:
        for cell, peaks in self.peaks.items():
            yield from ((peak, memory.predict(cell.kind, cell.concurrency, 0)) for peak in peaks)

    def _taught(self, concurrency: Collection[int]) -> PeakMemory:
        memory = PeakMemory()
        for cell, peaks in self.peaks.items():
            if cell.words == min(WORDS) and cell.concurrency in concurrency:
                memory.observe(cell.kind, cell.concurrency, peaks[0])
        return memory


def measure(models: Path) -> Iterator[tuple[str, Matrix]]:
    """Family by family. Blocks for a minute or so."""
    for family in FAMILIES:
        matrix = Matrix()
        model = fresh(models, family)
        for cell in (Cell(family, *rest) for rest in product(SIDES, WORDS, CONCURRENCY)):
            for _ in range(_ROUNDS):
                peak, left = _run(model, cell)
                matrix.peaks.setdefault(cell, []).append(peak)
                matrix.left[cell] = max(left, matrix.left.get(cell, 0))
        yield family, matrix


def _run(model: Loaded, cell: Cell) -> tuple[int, int]:
    frames = FRAMES if model.family.video else 1
    with LiveTensors() as live:
        engine = Stepwise(CpuDevice(ROOMY), model, Shape(cell.side, cell.side, cell.concurrency, frames))
        engine.join([_request(model, cell.words) for _ in range(cell.concurrency)])
        while not engine.idle:
            engine.step()
    del engine
    return live.peak, live.now


def _request(model: Loaded, words: int) -> Request:
    number = next(_number)
    prompt = " ".join(f"word {number + n}" for n in range(words // 2))
    scheduler = "flow-match-euler" if model.family is FAMILIES["sd3"] else "euler"
    return Request(Item(str(number), prompt, "", number), scheduler, _STEPS, 5.0)
