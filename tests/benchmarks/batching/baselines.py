"""Batchers that run a batch to its end, on a virtual clock: what serving frameworks do, with every knob in our hands.

They pay for the pictures in a batch and for no padding: a server that promises nothing about bytes need not pad.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import ceil, inf

from gpu_consumer.engine.virtual.device import VirtualDevice
from gpu_consumer.memory import quantile_of
from tests.benchmarks.batching.workload import STEP_COUNTS, Job

SIZES = (16, 12, 8, 6, 4, 3, 2)
WAITS = (0.0, 2.0, 5.0, 10.0, 20.0)  # seconds of the device; the shortest batch of one takes 3.4


@dataclass(frozen=True, slots=True)
class Knobs:
    """At most `size` in a batch; less than that goes when the first of it has waited `wait` seconds."""

    size: int
    wait: float


class Baseline(ABC):
    """One policy with its knobs set. Pure: it holds the queue."""

    def __init__(self, knobs: Knobs) -> None:
        self.knobs = knobs

    @abstractmethod
    def add(self, job: Job) -> None: ...

    @abstractmethod
    def take(self, now: float) -> list[list[Job]] | float | None:
        """What runs now, part after part; or when to ask again if nothing arrives; None: the queue is empty."""

    def may_go(self, queue: deque[Job], now: float) -> bool:
        # The time to ask again is this very sum: a difference could be rounded the other way, and never come true.
        return len(queue) >= self.knobs.size or queue[0].arrival + self.knobs.wait <= now

    def first(self, queue: deque[Job]) -> list[Job]:
        return [queue.popleft() for _ in range(min(self.knobs.size, len(queue)))]


class PadToMax(Baseline):
    """A batch of whoever came first; it runs as long as the longest in it."""

    def __init__(self, knobs: Knobs) -> None:
        super().__init__(knobs)
        self._queue: deque[Job] = deque()

    def add(self, job: Job) -> None:
        self._queue.append(job)

    def take(self, now: float) -> list[list[Job]] | float | None:
        if not self._queue:
            return None
        if not self.may_go(self._queue, now):
            return self._queue[0].arrival + self.knobs.wait
        return self.split(self.first(self._queue))

    def split(self, batch: list[Job]) -> list[list[Job]]:
        return [batch]


class EagerPadToMax(PadToMax):
    """It forms a batch while the device is busy, and lets no one else into it once its time is over."""

    def first(self, queue: deque[Job]) -> list[Job]:
        closes = queue[0].arrival + self.knobs.wait
        batch: list[Job] = []
        while queue and len(batch) < self.knobs.size and queue[0].arrival <= closes:
            batch.append(queue.popleft())
        return batch


class FillThenSplit(PadToMax):
    """The same batch, split by step count; each part answers when it is done. In order of arrival."""

    def split(self, batch: list[Job]) -> list[list[Job]]:
        parts: dict[int, list[Job]] = {}
        for job in batch:
            parts.setdefault(job.steps, []).append(job)
        return list(parts.values())


class FillThenSplitShortest(FillThenSplit):
    """The parts with the fewest steps first."""

    def split(self, batch: list[Job]) -> list[list[Job]]:
        return sorted(super().split(batch), key=lambda part: part[0].steps)


class PerKey(Baseline):
    """A queue for each step count; of those that may go, the one whose first has waited longest."""

    def __init__(self, knobs: Knobs) -> None:
        super().__init__(knobs)
        self._queues: dict[int, deque[Job]] = {steps: deque() for steps in STEP_COUNTS}

    def add(self, job: Job) -> None:
        self._queues[job.steps].append(job)

    def take(self, now: float) -> list[list[Job]] | float | None:
        waiting = [queue for queue in self._queues.values() if queue]
        ready = [queue for queue in waiting if self.may_go(queue, now)]
        if ready:
            return [self.first(min(ready, key=self.rank))]
        return min((queue[0].arrival + self.knobs.wait for queue in waiting), default=None)

    def rank(self, queue: deque[Job]) -> tuple[float, float]:
        return (0.0, queue[0].arrival)


class PerKeyLongest(PerKey):
    """Of those that may go, the one that fills most of a batch."""

    def rank(self, queue: deque[Job]) -> tuple[float, float]:
        return (-min(len(queue), self.knobs.size), queue[0].arrival)


# The three policies, each with the variants that it is free to choose from.
BASELINES: dict[str, tuple[type[Baseline], ...]] = {
    "fill-then-split": (FillThenSplit, FillThenSplitShortest),
    "pad-to-max": (PadToMax,),
    "per-key": (PerKey, PerKeyLongest),
}


def seconds_of(part: Sequence[Job], device: VirtualDevice) -> float:
    """A part from its first step to its pictures, text left out."""
    return max(job.steps for job in part) * device.step_seconds(len(part)) + device.decode_seconds(len(part))


def finish_times(
    baseline: Baseline, jobs: Sequence[Job], device: VirtualDevice, *, p95_max: float = inf
) -> list[float] | None:
    """When each job has its picture, in the order of `jobs`, which is that of arrival; None if the P95 is not below."""
    finished = [0.0] * len(jobs)
    late_max = len(jobs) - ceil(0.95 * len(jobs))
    now, coming, late = 0.0, 0, 0
    while True:
        while coming < len(jobs) and jobs[coming].arrival <= now:
            baseline.add(jobs[coming])
            coming += 1
        chosen = baseline.take(now)
        if isinstance(chosen, list):
            now += device.text_seconds(sum(map(len, chosen)))
            for part in chosen:
                now += seconds_of(part, device)
                for job in part:
                    finished[job.number] = now
                    late += now - job.arrival >= p95_max
            if late > late_max:
                return None
            continue
        times = [jobs[coming].arrival] if coming < len(jobs) else []
        times += [chosen] if chosen is not None else []
        if not times:
            return finished
        now = min(times)


@dataclass(frozen=True, slots=True)
class Tuned:
    """The best that one policy can do for these jobs."""

    name: str
    knobs: Knobs
    p95: float


def tuned(
    name: str,
    jobs: Sequence[Job],
    device: VirtualDevice,
    *,
    variants: Sequence[type[Baseline]] | None = None,
) -> Tuned:
    """The variant and knobs with the lowest P95 for these very jobs: no one could have set them better beforehand."""
    best: Tuned | None = None
    for variant, size, wait in product(variants or BASELINES[name], SIZES, WAITS):
        knobs = Knobs(size, wait)
        finished = finish_times(variant(knobs), jobs, device, p95_max=best.p95 if best else inf)
        if finished is not None:
            latencies = [done - job.arrival for done, job in zip(finished, jobs, strict=True)]
            best = Tuned(name, knobs, quantile_of(latencies, 0.95))
    assert best is not None
    return best


def saturated(name: str, jobs: Sequence[Job], device: VirtualDevice) -> float:
    """Pictures a second of the best variant when more waits than it can do."""
    rates = []
    for variant, size in product(BASELINES[name], SIZES):
        finished = finish_times(variant(Knobs(size, 0.0)), jobs, device)
        assert finished is not None
        rates.append(len(jobs) / max(finished))
    return max(rates)
