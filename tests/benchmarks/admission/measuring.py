"""The same for each service: a warm-up, bursts beside bursts of the copy loop, and an even load of half of the rate.

Neighbours of a machine come and go within minutes, so that what two services could carry one after the other says
little. The loop runs all the while, and has its turn before, between and after the bursts of each.
"""

import math
import statistics
import time
from dataclasses import dataclass

from tests.benchmarks.load import Publisher, Watcher
from tests.benchmarks.rates import Latency, burst, cpu_seconds, drip
from tests.fault.waiting import Deadline

_WARM_UP = 1000
_BESIDE = 20_000  # a second or less
_HALF_SECONDS = 6.0
_DRIP_MAX = 4000.0  # requests a second that one thread can hand over evenly


@dataclass(frozen=True, slots=True)
class Service:
    """What takes requests, by its two ends and its process."""

    publisher: Publisher
    watcher: Watcher
    pid: int

    def burst(self, length: int, deadline: Deadline) -> float:
        rate = burst(self.publisher, self.watcher, length, deadline)
        self.publisher.published.clear()
        self.watcher.forget()
        return rate


@dataclass(frozen=True, slots=True)
class Figures:
    """`rates`: events a second of each burst, `beside` of the copy loop's around them. `cpu`: seconds an event of the
    service's own. `latency`: at half of the rate, or at what can be handed over evenly."""

    rates: tuple[float, ...]
    beside: tuple[float, ...]
    cpu: float
    latency: Latency

    @property
    def rate(self) -> float:
        return statistics.median(self.rates)

    @property
    def share(self) -> float:
        """Of what the copy loop carries."""
        return self.rate / statistics.median(self.beside)


def measure(
    service: Service, loop: Service, deadline: Deadline, *, rounds: int, length: int, seconds: float = math.inf
) -> Figures:
    """`rounds` bursts of `length` requests, and none that would begin after so many seconds but the first. Blocks until
    all of them came; raises TimeoutError."""
    service.burst(_WARM_UP, deadline)
    began, cpu = time.monotonic(), 0.0
    rates: list[float] = []
    beside = [loop.burst(_BESIDE, deadline)]
    while len(rates) < rounds and (not rates or time.monotonic() - began < seconds):
        before = cpu_seconds(service.pid)
        rates.append(service.burst(length, deadline))
        cpu += cpu_seconds(service.pid) - before
        beside.append(loop.burst(_BESIDE, deadline))
    half = min(_DRIP_MAX, statistics.median(rates) / 2)
    latency = drip(service.publisher, service.watcher, half, _HALF_SECONDS, deadline)
    return Figures(tuple(rates), tuple(beside), cpu / (len(rates) * length), latency)
