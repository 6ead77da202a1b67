"""Who asks, and when: one tenant with a flood, and one in bursts of the shape that real traffic has."""

import csv
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate, pairwise
from pathlib import Path

from schemas.request import Lane

# Arrivals at a language model's service; only the shape of their bursts is taken from it. Not part of this repository.
TRACE = Path(__file__).parents[4] / "shared" / "data" / "AzureLLMInferenceTrace_code.csv"
TRACE_CV = 13.0  # of the time between two of its arrivals, and what takes its place where it is not there
KEYS = 50


@dataclass(frozen=True, slots=True)
class Ask:
    """A picture, asked for at `arrival` seconds."""

    arrival: float
    tenant: str
    lane: Lane = "standard"
    key: str | None = None


def bursts(number: int, rate: float, seed: int) -> list[float]:
    """So many moments at a mean of `rate` a second, in the shape of the trace from its `seed`-th part on, or drawn."""
    gaps = _traced(number, seed) if TRACE.exists() else _drawn(number, seed)
    scale = number / rate / sum(gaps)
    return [moment * scale for moment in accumulate(gaps)]


def evenly(number: int, rate: float, seed: int) -> list[float]:
    """One at a time (a Poisson process)."""
    draw = random.Random(seed)
    return list(accumulate(draw.expovariate(rate) for _ in range(number)))


def flood(moments: Iterable[float], *, keys: int = 0) -> list[Ask]:
    """Through so many keys in turn; 0: through none."""
    return [Ask(at, "flood", key=f"k{n % keys}" if keys else None) for n, at in enumerate(moments)]


def mixed(*asks: Sequence[Ask]) -> list[Ask]:
    return sorted((ask for each in asks for ask in each), key=lambda ask: ask.arrival)


def _traced(number: int, seed: int) -> list[float]:
    with TRACE.open(encoding="utf-8", newline="") as file:
        moments = [datetime.fromisoformat(row["TIMESTAMP"][:26]).timestamp() for row in csv.DictReader(file)]
    gaps = [later - sooner for sooner, later in pairwise(moments)]
    first = seed * len(gaps) // 4
    return [gaps[(first + n) % len(gaps)] for n in range(number)]


def _drawn(number: int, seed: int) -> list[float]:
    draw = random.Random(seed)
    return [draw.gammavariate(TRACE_CV**-2, TRACE_CV**2) for _ in range(number)]
