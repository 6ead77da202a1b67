"""bench-engine: the stepwise engine beside stock diffusers, on the tiny models of two families.

    python -m tests.benchmarks.engine

Both make the same pictures, from words to 8-bit pixels, in this process, in turns, on one CPU thread. Time is CPU time:
the device is the CPU, and what others do on the machine meanwhile is not the engines' doing. Full batches are stock's
best case: requests that agree on everything, as many as the batch holds, all there at the start. No prompt comes twice,
so that the stepwise engine's memory of texts helps only with what is always the same, the negative prompt.

Then what stock cannot do: requests that differ in steps, scheduler and guidance scale, joining as slots become free;
its peer is stock with as many pictures and steps in full batches. Each picture must be the one that stock draws at the
same padded size, the batch filled with that request alone. How far stock's own pictures move with its batch size is
printed beside it: random weights push a difference in the last bit far, and that is why the size is fixed.
Exit status 1 where a bar is missed.
"""

import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console

from gpu_consumer.engine.protocol import Item
from gpu_consumer.engine.stepwise.loop import Stepwise
from gpu_consumer.engine.stepwise.request import Request, Shape
from gpu_consumer.models.families import fresh_scheduler
from gpu_consumer.models.loading import Loaded
from gpu_consumer.models.tiny import make_tiny
from tests.benchmarks.report import Measure, report
from tests.stepwise import NAMES, fresh, made, stepwise

_FAMILIES = ("sd15", "sdxl")
# At 128 pixels a step of four is 15 to 25 ms of sums; at 64, mostly Python calling torch, in both engines.
_SIZE = 128
_BUCKET = 4
_STEPS = 20
_ROUNDS = 5
_CHURN_STEPS = (14, 20, 26)  # as many in all as if each had _STEPS
_CHURN_ROUNDS = 3
_CHURN_REQUESTS = 8 * _BUCKET * len(_CHURN_STEPS) // 2

console = Console(highlight=False, soft_wrap=True)
_number = count()


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
        for family in _FAMILIES:
            model = fresh(Path(folder), family)
            measures |= _full_batches(model, family) | _churning(model, family)
    return 0 if report("engine", measures, console) else 1


def _full_batches(model: Loaded, family: str) -> dict[str, Measure]:
    stock_total, ours_total = Arm(), Arm()
    apart = 0
    for scheduler in NAMES:
        engine = stepwise(model, Shape(_SIZE, _SIZE, _BUCKET))
        stock, ours = Arm(), Arm()
        for turn in range(_ROUNDS + 1):
            batch = [_request(scheduler, _STEPS, 5.0) for _ in range(_BUCKET)]
            works = {"stock": (stock, partial(_stock, model, batch)), "ours": (ours, partial(_ours, engine, batch))}
            order = ("stock", "ours") if turn % 2 else ("ours", "stock")
            pictures = {name: works[name][0].time(works[name][1]) for name in order}
            apart = max(apart, _levels_apart(pictures["stock"], pictures["ours"]))
        for arm, total in ((stock, stock_total), (ours, ours_total)):
            arm.seconds = arm.seconds[1:]  # the first turn warms up
            total.seconds = [sum(pair) for pair in zip(total.seconds or [0.0] * _ROUNDS, arm.seconds, strict=True)]
        rates = [_BUCKET / arm.median for arm in (stock, ours)]
        console.print(f"{family} {scheduler}: {rates[0]:.2f} pictures/s stock, {rates[1]:.2f} stepwise")
    ratio = stock_total.median / ours_total.median
    return {
        f"{family} full": Measure(ratio, "ratio", "higher", goal=1.0, bar=0.95, peer="stock's pictures/s"),
        f"{family} full, apart": Measure(apart, "levels", "lower", bar=0, peer="stock's pictures"),
    }


def _churning(model: Loaded, family: str) -> dict[str, Measure]:
    """Whole batches of one scheduler in stock; any mix of them, of three lengths and two scales, in ours."""
    stock, ours = Arm(), Arm()
    engine = stepwise(model, Shape(_SIZE, _SIZE, _BUCKET))
    apart = moved = 0
    for _ in range(_CHURN_ROUNDS):
        requests = [
            _request(NAMES[n % len(NAMES)], _CHURN_STEPS[n % len(_CHURN_STEPS)], (5.0, 7.3)[n % 2])
            for n in range(_CHURN_REQUESTS)
        ]
        pictures = ours.time(partial(_ours, engine, requests))
        batches = [
            [_request(NAMES[n % len(NAMES)], _STEPS, 5.0) for _ in range(_BUCKET)]
            for n in range(_CHURN_REQUESTS // _BUCKET)
        ]
        stock.time(lambda b=batches: [_stock(model, batch) for batch in b])  # type: ignore[misc]
        for n in range(0, _CHURN_REQUESTS, 7):
            same_size = _stock(model, [requests[n]] * _BUCKET)[:1]
            apart = max(apart, _levels_apart(same_size, [pictures[n]]))
            moved = max(moved, _levels_apart(same_size, _stock(model, [requests[n]])))
    ratio = stock.median / ours.median
    return {
        f"{family} churning": Measure(ratio, "ratio", "higher", goal=0.95, peer="stock's in full batches"),
        f"{family} churning, apart": Measure(apart, "levels", "lower", bar=1, peer="stock's, same padding"),
        f"{family} stock, apart": Measure(moved, "levels", "lower", peer="stock's, one at a time"),
    }


def _request(scheduler: str, steps: int, guidance_scale: float) -> Request:
    number = next(_number)
    return Request(Item(str(number), f"a red circle, number {number}", "", number), scheduler, steps, guidance_scale)


def _stock(model: Loaded, batch: Sequence[Request]) -> list[Any]:
    first = batch[0]
    model.pipe.scheduler = fresh_scheduler(first.scheduler, model.scheduler_config)
    images = model.pipe(
        prompt=[one.item.prompt for one in batch],
        negative_prompt=[one.item.negative_prompt for one in batch],
        width=_SIZE,
        height=_SIZE,
        num_inference_steps=first.steps,
        guidance_scale=first.guidance_scale,
        generator=[torch.Generator("cpu").manual_seed(one.item.seed) for one in batch],
        output_type="np",
    ).images
    return list((images * 255).round().astype(np.uint8))


def _ours(engine: Stepwise, requests: Sequence[Request]) -> list[Any]:
    """The longest first, as any who can choose would; what comes behind is hinted at."""
    waiting = sorted(requests, key=lambda one: -one.steps)
    pixels: dict[str, Any] = {}
    while waiting or not engine.idle:
        joining, waiting = waiting[: engine.free_slots], waiting[engine.free_slots :]
        engine.join(joining)
        engine.hint(waiting[:_BUCKET])
        pixels |= {one.request.key: made(one).pixels for one in engine.step()}
    return [pixels[one.key] for one in requests]


def _levels_apart(left: Sequence[Any], right: Sequence[Any]) -> int:
    return max(int(np.abs(a.astype(int) - b.astype(int)).max()) for a, b in zip(left, right, strict=True))


if __name__ == "__main__":
    sys.exit(main())
