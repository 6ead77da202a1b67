"""The same for each service: a warm-up, bursts of one length, and an even load of half of what it can carry."""

import math
import statistics
import time
from dataclasses import dataclass

from tests.benchmarks.load import Publisher, Watcher
from tests.benchmarks.rates import Latency, burst, cpu_seconds, drip
from tests.fault.waiting import Deadline

_WARM_UP = 1000
_HALF_SECONDS = 6.0
_DRIP_MAX = 4000.0  # requests a second that one thread can hand over evenly


@dataclass(frozen=True, slots=True)
class Figures:
    """`rates`: events a second of each burst. `cpu`: seconds an event of the service's own. `latency`: at half of the
    rate, or at what can be handed over evenly."""

    rates: tuple[float, ...]
    cpu: float
    latency: Latency

    @property
    def rate(self) -> float:
        return statistics.median(self.rates)

    @property
    def spread(self) -> float:
        """How far the bursts were apart: the fastest over the slowest."""
        return max(self.rates) / min(self.rates)


def measure(
    publisher: Publisher,
    watcher: Watcher,
    pid: int,
    deadline: Deadline,
    *,
    rounds: int,
    length: int,
    seconds: float = math.inf,
) -> Figures:
    """`rounds` bursts of `length` requests, and none that would begin after so many seconds but the first. Blocks until
    all of them came; raises TimeoutError."""
    burst(publisher, watcher, _WARM_UP, deadline)
    before, began = cpu_seconds(pid), time.monotonic()
    rates: list[float] = []
    while len(rates) < rounds and (not rates or time.monotonic() - began < seconds):
        rates.append(burst(publisher, watcher, length, deadline))
    cpu = (cpu_seconds(pid) - before) / (len(rates) * length)
    half = min(_DRIP_MAX, statistics.median(rates) / 2)
    return Figures(tuple(rates), cpu, drip(publisher, watcher, half, _HALF_SECONDS, deadline))
