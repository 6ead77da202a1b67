"""Whether something grows, from looks at two processes after each of many equal waves of work. Pure."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.fault.soak.probe import Holding

WARM_WAVES = 6  # until every kind has run and the allocators hold what they will hold
# An allocator takes megabytes in the first two thousand requests; two pictures kept by mistake are 25 kB each time.
SLOPE_BYTES_MAX = 12 << 10  # a request
GROWTH_MAX = 1.25  # of the CPU time of a wave, which a busy machine disturbs less than the clock


@dataclass(frozen=True, slots=True)
class Wave:
    """After so many requests, with nothing left to do."""

    requests: int
    seconds: float
    consumer: Holding
    engine: Holding


def grown(waves: Sequence[Wave]) -> Iterator[str]:
    """What is more at the end than it was once all was warm."""
    steady = waves[WARM_WAVES:]
    requests = [wave.requests for wave in steady]
    for name in ("consumer", "engine"):
        held: list[Holding] = [getattr(wave, name) for wave in steady]
        if (bytes_ := slope(requests, [one.resident_bytes for one in held])) > SLOPE_BYTES_MAX:
            yield f"the {name} grows by {bytes_:.0f} bytes a request; {SLOPE_BYTES_MAX} are allowed"
        for what in ("descriptors", "memory_files", "threads", "children"):
            counts = [getattr(one, what) for one in held]
            half = len(counts) // 2
            if min(counts[half:]) > max(counts[:half]):  # a moment's work may hold one more
                yield f"the {name} has ever more {what}: {counts}"
    if (ratio := growth(cpu_seconds(steady))) > GROWTH_MAX:
        yield f"a wave takes {ratio:.2f} times the CPU time it took; {GROWTH_MAX} are allowed"


def cpu_seconds(waves: Sequence[Wave]) -> list[float]:
    """Of both processes, a wave."""
    total = [wave.consumer.cpu_seconds + wave.engine.cpu_seconds for wave in waves]
    return [later - before for before, later in itertools.pairwise(total)]


def slope(xs: Sequence[float], ys: Sequence[float]) -> float:
    """Of the straight line with the least squares through the points; 0 where all `xs` are one."""
    assert len(xs) == len(ys) > 1
    x_mean, y_mean = sum(xs) / len(xs), sum(ys) / len(ys)
    spread = sum((x - x_mean) ** 2 for x in xs)
    return sum((x - x_mean) * (y - y_mean) for x, y in zip(xs, ys, strict=True)) / spread if spread else 0.0


def growth(values: Sequence[float]) -> float:
    """The median of the last quarter over the median of the first."""
    quarter = max(1, len(values) // 4)
    first, last = sorted(values[:quarter]), sorted(values[-quarter:])
    return last[len(last) // 2] / first[len(first) // 2]
