"""bench-memory: is what fits known before it runs, and is what is known put to use?

    python -m tests.benchmarks.memory

First the replay (replay.py): mixed sizes and prompt lengths on a model of a card whose memory fragments. Our granting
is to run out of memory never, to make nearly as many pictures as one who knows everything beforehand, and to serve
them far sooner than a fixed concurrency that is safe for the largest of them. Waiting is measured at 0.7 of what the
clairvoyant can make, which is more than the fixed concurrency can. Where that keeps up, at 0.9 of its own most, it
serves about as soon: a batch is padded to its bucket, and a few pictures pay for a full one. Both stand in the table.

Then the stress matrix (stress.py): what a request takes, measured from live tensors on the tiny models. Exit status 1
where a bar is missed.
"""

import sys
import tempfile
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import torch
from rich.console import Console

from gpu_consumer.models.tiny import make_tiny
from tests.benchmarks.memory import replay as arms
from tests.benchmarks.memory import stress
from tests.benchmarks.memory.replay import replay, wishes
from tests.benchmarks.report import Measure, report

_SEEDS = range(10)
_PICTURES = 600
_LOAD = 0.7  # of what the clairvoyant can make
_LOAD_OF_FIXED = 0.9

console = Console(highlight=False, soft_wrap=True)


@dataclass(slots=True)
class Tally:
    """Over all seeds: the worst of each ratio, and the sum of what ran out of memory."""

    out_of_memory: int = 0
    kept_cache: int = 0
    greedy: int = 0
    throughput: list[float] = field(default_factory=list)
    p95: list[float] = field(default_factory=list)
    p95_of_fixed: list[float] = field(default_factory=list)
    fixed: list[float] = field(default_factory=list)


def main() -> int:
    """Measure, report, and say by the exit status whether every bar was met."""
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message="__array__ implementation", category=DeprecationWarning)
    return 0 if report("memory", _replayed() | _stressed(), console) else 1


def _replayed() -> dict[str, Measure]:
    tally = Tally()
    for seed in _SEEDS:
        _count(tally, seed)
    return {
        "granted": Measure(tally.out_of_memory, "out of memory", "lower", bar=0),
        "granted, cache kept": Measure(tally.kept_cache, "out of memory", "lower"),
        "whatever is unused": Measure(tally.greedy, "out of memory", "lower"),
        "pictures/s": Measure(min(tally.throughput), "ratio", "higher", goal=0.95, bar=0.90, peer="clairvoyant"),
        "P95": Measure(max(tally.p95), "ratio", "lower", bar=0.50, peer="fixed concurrency"),
        "fixed, pictures/s": Measure(max(tally.fixed), "ratio", "higher", peer="clairvoyant"),
        "P95, fixed keeps up": Measure(max(tally.p95_of_fixed), "ratio", "lower", peer="fixed concurrency"),
    }


def _count(tally: Tally, seed: int) -> None:
    """At once: as many pictures a second as can be. Then as they come, at two loads."""
    at_once = wishes(seed, _PICTURES, None)
    best = replay(seed, at_once, arms.clairvoyant, arms.boundless())
    ours = replay(seed, at_once, arms.granted)
    number = arms.best_fixed(seed, at_once)
    fixed = replay(seed, at_once, arms.fixed(number))
    tally.throughput.append(ours.throughput / best.throughput)
    tally.fixed.append(fixed.throughput / best.throughput)
    coming = wishes(seed, _PICTURES, _LOAD * best.throughput)
    ours_coming, fixed_coming = replay(seed, coming, arms.granted), replay(seed, coming, arms.fixed(number))
    tally.p95.append(ours_coming.p95 / fixed_coming.p95)
    fewer = wishes(seed, _PICTURES, _LOAD_OF_FIXED * fixed.throughput)
    ours_fewer = replay(seed, fewer, arms.granted)
    tally.p95_of_fixed.append(ours_fewer.p95 / replay(seed, fewer, arms.fixed(number)).p95)
    tally.out_of_memory += ours.out_of_memory + ours_coming.out_of_memory + ours_fewer.out_of_memory
    for asked in (at_once, coming, fewer):
        tally.kept_cache += replay(seed, asked, arms.cached).out_of_memory
        tally.greedy += replay(seed, asked, arms.greedy).out_of_memory
    console.print(
        f"seed {seed}: {ours.throughput:.3f} pictures/s granted, {best.throughput:.3f} clairvoyant, "
        f"{fixed.throughput:.3f} fixed at {number}; P95 {ours_coming.p95:.0f} s granted, {fixed_coming.p95:.0f} s fixed"
    )


def _stressed() -> dict[str, Measure]:
    measures: dict[str, Measure] = {}
    with tempfile.TemporaryDirectory(prefix="promptkiln-bench-") as folder:
        make_tiny(Path(folder))
        for family, matrix in stress.measure(Path(folder)):
            largest = max(matrix.peaks, key=lambda cell: max(matrix.peaks[cell]))
            each = max(matrix.peaks[largest]) / largest.concurrency
            console.print(f"{family}: {each / 2**20:.2f} MiB a request at {largest.side} pixels")
            measures |= {
                f"{family}, off": Measure(matrix.apart, "ratio", "lower", goal=0.05, bar=0.15, peer="its prediction"),
                f"{family}, above": Measure(matrix.too_low, "ratio", "lower", bar=0.05, peer="a line between others"),
                f"{family}, left": Measure(max(matrix.left.values()), "bytes", "lower", bar=0),
            }
    return measures


if __name__ == "__main__":
    sys.exit(main())
