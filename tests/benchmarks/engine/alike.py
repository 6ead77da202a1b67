"""Whether the stepwise engine's pictures are stock's: every family, every scheduler that it takes."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from gpu_consumer.engine.stepwise.request import Request
from tests.benchmarks.engine.pictures import Drawer, levels_apart, request
from tests.benchmarks.report import Measure

_STEPS = 6
_LENGTHS = (4, 6, 9)
_SCALES = (5.0, 7.3)


def alike(family: str, drawer: Drawer, schedulers: Sequence[str]) -> dict[str, Measure]:
    """Alone: a bucket of one beside a stock call of one. Full: the same batch by both. Churning: each request alone in
    stock, its batch filled with it alone, so that both run it at one padded size.

    `stock, apart` is how far stock's own pictures move with its batch size: random weights push a difference in the
    last bit far, and that is why the size is fixed.
    """
    alone = full = churned = moved = 0
    single = Drawer(drawer.model, replace(drawer.shape, bucket=1))
    bucket = drawer.shape.bucket
    for scheduler in schedulers:
        one = request(scheduler, _STEPS)
        alone = max(alone, levels_apart(single.stock([one]), single.ours(single.engine(), [one])))
        batch = [request(scheduler, _STEPS) for _ in range(bucket)]
        full = max(full, levels_apart(drawer.stock(batch), drawer.ours(drawer.engine(), batch)))
    crowd = _crowd(schedulers)
    pictures = drawer.ours(drawer.engine(), crowd)
    for each, picture in zip(crowd, pictures, strict=True):
        same_size = drawer.stock([each] * bucket)[:1]
        churned = max(churned, levels_apart(same_size, [picture]))
        moved = max(moved, levels_apart(same_size, drawer.stock([each])))
    return {
        f"{family} alone, apart": Measure(alone, "levels", "lower", bar=0, peer="stock's, alone"),
        f"{family} full, apart": Measure(full, "levels", "lower", bar=0, peer="stock's, the same batch"),
        f"{family} churning, apart": Measure(churned, "levels", "lower", goal=0, bar=1, peer="stock's, same padding"),
        f"{family} stock, apart": Measure(moved, "levels", "lower", peer="stock's, one at a time"),
    }


def _crowd(schedulers: Sequence[str]) -> list[Request]:
    """Each scheduler at every length and scale; more than there are slots."""
    return [request(*each) for each in product(schedulers, _LENGTHS, _SCALES)]
