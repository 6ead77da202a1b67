"""bench-engine: the stepwise engine beside stock diffusers, on the tiny models.

    python -m tests.benchmarks.engine

Both make the same pictures, from words to 8-bit pixels, in this process, in turns, on one CPU thread. Time is CPU time:
the device is the CPU, and what others do on the machine meanwhile is not the engines' doing. Full batches are stock's
best case: requests that agree on everything, as many as the batch holds, all there at the start. No prompt comes twice,
so that the stepwise engine's memory of texts helps only with what is always the same, the negative prompt.

Then what stock cannot do: requests that differ in steps, scheduler and guidance scale, joining as slots become free;
its peer is stock with as many pictures and steps in full batches. Then, of every family, how far our pictures are from
stock's. Exit status 1 where a bar is missed.
"""

import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from gpu_consumer.engine.stepwise.request import Shape
from gpu_consumer.models.families import FAMILIES
from gpu_consumer.models.tiny import make_tiny
from tests.benchmarks.engine.alike import alike
from tests.benchmarks.engine.pictures import Drawer, levels_apart, request
from tests.benchmarks.report import Measure, report
from tests.stepwise import FRAMES, NAMES, PAIRS, fresh

_TIMED = ("sd15", "sdxl")
# At 128 pixels a step of four is 15 to 25 ms of sums; at 64, mostly Python calling torch, in both engines.
_SIZE = 128
_SMALL = 64
_BUCKET = 4
_STEPS = 20
_ROUNDS = 5
_CHURN_STEPS = (14, 20, 26)  # as many in all as if each had _STEPS
_CHURN_ROUNDS = 3
_CHURN_REQUESTS = 8 * _BUCKET * len(_CHURN_STEPS) // 2

console = Console(highlight=False, soft_wrap=True)


@dataclass(slots=True)
class Arm:
    """CPU seconds of each round."""

    seconds: list[float] = field(default_factory=list)

    def time(self, work: Callable[[], list[Any]]) -> list[Any]:
        started = time.process_time()
        pixels = work()
        self.seconds.append(time.process_time() - started)
        return pixels

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


def main() -> int:
    """Measure, report, and say by the exit status whether every bar was met."""
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message="__array__ implementation", category=DeprecationWarning)
    measures: dict[str, Measure] = {}
    with tempfile.TemporaryDirectory(prefix="promptkiln-bench-") as folder:
        make_tiny(Path(folder))
        for family in FAMILIES:
            model = fresh(Path(folder), family)
            if family in _TIMED:
                drawer = Drawer(model, Shape(_SIZE, _SIZE, _BUCKET))
                measures |= _full_batches(drawer, family) | _churning(drawer, family)
            small = Drawer(model, Shape(_SMALL, _SMALL, _BUCKET, FRAMES if model.family.video else 1))
            measures |= alike(family, small, [scheduler for taker, scheduler in PAIRS if taker == family])
            console.print(f"{family}: as far from stock as {measures[f'{family} churning, apart'].value:g} levels")
    return 0 if report("engine", measures, console) else 1


def _full_batches(drawer: Drawer, family: str) -> dict[str, Measure]:
    stock_total, ours_total = Arm(), Arm()
    for scheduler in NAMES:
        engine = drawer.engine()
        stock, ours = Arm(), Arm()
        for turn in range(_ROUNDS + 1):
            batch = [request(scheduler, _STEPS) for _ in range(_BUCKET)]
            works = {
                "stock": (stock, partial(drawer.stock, batch)),
                "ours": (ours, partial(drawer.ours, engine, batch)),
            }
            order = ("stock", "ours") if turn % 2 else ("ours", "stock")
            pictures = {name: works[name][0].time(works[name][1]) for name in order}
            assert levels_apart(pictures["stock"], pictures["ours"]) == 0, "this is not the same work"
        for arm, total in ((stock, stock_total), (ours, ours_total)):
            arm.seconds = arm.seconds[1:]  # the first turn warms up
            total.seconds = [sum(pair) for pair in zip(total.seconds or [0.0] * _ROUNDS, arm.seconds, strict=True)]
        rates = [_BUCKET / arm.median for arm in (stock, ours)]
        console.print(f"{family} {scheduler}: {rates[0]:.2f} pictures/s stock, {rates[1]:.2f} stepwise")
    ratio = stock_total.median / ours_total.median
    return {f"{family} full": Measure(ratio, "ratio", "higher", goal=1.0, bar=0.95, peer="stock's pictures/s")}


def _churning(drawer: Drawer, family: str) -> dict[str, Measure]:
    """Whole batches of one scheduler in stock; any mix of them, of three lengths and two scales, in ours."""
    stock, ours = Arm(), Arm()
    engine = drawer.engine()
    for _ in range(_CHURN_ROUNDS):
        requests = [
            request(NAMES[n % len(NAMES)], _CHURN_STEPS[n % len(_CHURN_STEPS)], (5.0, 7.3)[n % 2])
            for n in range(_CHURN_REQUESTS)
        ]
        ours.time(partial(drawer.ours, engine, requests))
        batches = [
            [request(NAMES[n % len(NAMES)], _STEPS) for _ in range(_BUCKET)] for n in range(_CHURN_REQUESTS // _BUCKET)
        ]
        stock.time(lambda b=batches: [drawer.stock(batch) for batch in b])  # type: ignore[misc]
    ratio = stock.median / ours.median
    return {f"{family} churning": Measure(ratio, "ratio", "higher", goal=0.95, peer="stock's in full batches")}


if __name__ == "__main__":
    sys.exit(main())
