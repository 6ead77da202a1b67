"""The device of bench-affinity, how many consumers there are when, and what is counted."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from infra.planner.pool import Pool
from infra.planner.request import Request


@dataclass(frozen=True, slots=True)
class Device:
    """A batch of n pictures takes `base + each * n` seconds; another model than before, `swap` more."""

    base: float
    each: float
    bucket: int
    swap: float = 22.7

    def seconds(self, batch: Sequence[Request]) -> float:
        return self.base + self.each * len(batch)

    @property
    def seconds_alone(self) -> float:
        return self.base + self.each

    @property
    def rate_max(self) -> float:
        """Pictures a second without a swap, every batch full."""
        return self.bucket / (self.base + self.each * self.bucket)


@dataclass(slots=True)
class Seen:
    """Of what began from `since` on: seconds that each picture waited for its run, pictures, runs, swaps, and how much
    more work than the others the busiest consumer was sent."""

    since: float
    waits: list[float] = field(default_factory=list)
    done: int = 0
    runs: int = 0
    swaps: int = 0
    busiest: float = 1.0  # of a phase between two changes of the group, over its mean
    _sent: dict[str, float] = field(default_factory=dict)

    @property
    def swapped(self) -> float:
        """Swaps a run."""
        return self.swaps / self.runs

    def arrived(self, request: Request, owner: str | None) -> None:
        if owner is not None and request.arrival >= self.since:
            self._sent[owner] = self._sent.get(owner, 0.0) + request.seconds

    def began(self, now: float, batch: Sequence[Request], swap: float) -> None:
        if now - swap >= self.since:
            self.runs += 1
            self.swaps += swap > 0
            self.done += len(batch)
            self.waits += [now - request.arrival for request in batch]

    def ended(self, now: float, request: Request, *, made: bool) -> None: ...

    def count_phase(self, staying: Sequence[str]) -> None:
        total = sum(self._sent.get(name, 0.0) for name in staying)
        if total:
            busiest = max(self._sent.get(name, 0.0) for name in staying) * len(staying) / total
            self.busiest = max(self.busiest, busiest)
        self._sent = {}


class Steps:
    """So many consumers from each moment on."""

    def __init__(self, sizes: Mapping[float, int], seen: Seen) -> None:
        self._sizes = dict(sorted(sizes.items()))
        self._seen = seen

    def look(self, now: float, pool: Pool) -> float:
        self._seen.count_phase([each.name for each in pool.staying()])
        pool.scale(self._sizes[now], now)
        return next((moment for moment in self._sizes if moment > now), math.inf)
