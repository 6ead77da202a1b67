"""How much memory a batch will take, and so how many slots may run. Pure: no torch, no clock.

A batch's peak is a fixed part and a part a slot. Both are learned: from what was measured here, else from what other
engines of the same device told, else from the price of the configuration. Bytes are beside the weights.
"""

import math
from collections import defaultdict, deque
from collections.abc import Collection
from itertools import accumulate
from typing import TypeVar

Number = TypeVar("Number", int, float)

SHARE = 0.9  # of what is free; the rest is for what no prediction sees: blocks of an odd size, a neighbour that grows

_QUANTILE = 0.95
_FEW = 20  # measures of a kind: the 95th percentile of fewer is but the largest of them


def half(bucket: int) -> int:
    """The next smaller bucket of one that did not fit."""
    return (bucket + 1) // 2


def usable(free: int, reserved: int, allocated: int, split: int) -> int:
    """What a batch can have: free on the device, and what our allocator keeps in whole blocks and gives back at need.

    `split`: unused parts of blocks whose other parts are in use. They serve only what fits into them.
    """
    return max(0, free + reserved - allocated - split)


def left_to_one(memory_bytes: int, workers: int, weights_bytes: int, shared_bytes: int) -> int:
    """What one of `workers` processes may take beside its weights, so that what all of them take fits.

    `shared_bytes` of the weights are there once for all of them; what is left beside those is split evenly, and the
    rest of one's weights comes out of its own part. Below 0: too much.
    """
    return (memory_bytes - shared_bytes) // workers - (weights_bytes - shared_bytes)


def neighbour_took(free_before: int, free_now: int) -> bool:
    """Why a batch ran out of memory that was predicted to fit, once all it took was given back (case GPU-13).

    Then it is nobody's fault and passes: run the same batch again, later.
    """
    return free_now < SHARE * free_before


class PeakMemory:
    """Learns by kind (schemas.config) and padded bucket. For one device and one thread.

    `window`: how many of the last measures of a kind and bucket count. Their 95th percentile is predicted; where a kind
    has run out of memory, their largest.
    """

    def __init__(self, window: int = 64) -> None:
        assert window >= 1
        self._seen: defaultdict[str, dict[int, deque[int]]] = defaultdict(dict)
        self._told: defaultdict[str, dict[int, int]] = defaultdict(dict)
        self._limits: dict[str, int] = {}
        self._window = window

    def observe(self, kind: str, bucket: int, bytes_: int) -> None:
        """A batch of `bucket` slots, padding included, took at most `bytes_` beside the weights."""
        self._seen[kind].setdefault(bucket, deque(maxlen=self._window)).append(bytes_)

    def learn(self, kind: str, bucket: int, bytes_: int) -> None:
        """Another engine's prediction for the same device. It counts until something of the bucket is measured here."""
        self._told[kind][bucket] = bytes_

    def out_of_memory(self, kind: str, bucket: int) -> None:
        """A batch did not fit, so no batch of its kind is granted so many slots again; one slot always may be.

        Not where a neighbour took the memory, for a limit stays: see neighbour_took.
        """
        self._limits[kind] = min(self._limits.get(kind, bucket), half(bucket))

    def predict(self, kind: str, bucket: int, preset_bytes_per_item: int) -> int:
        """The peak expected of a batch. Exact at buckets that are known, linear between, never less for more slots."""
        return self._estimate(kind, bucket, preset_bytes_per_item, 1.0 if kind in self._limits else _QUANTILE)

    def most(self, kind: str, bucket: int, preset_bytes_per_item: int) -> int:
        """What a batch may take at worst: the largest seen, and while few were, no less than by the price."""
        largest = self._estimate(kind, bucket, preset_bytes_per_item, 1.0)
        few = not self._told.get(kind) and sum(map(len, self._seen.get(kind, {}).values())) < _FEW
        return max(largest, bucket * preset_bytes_per_item) if few else largest

    def granted(self, kind: str, bucket: int, preset_bytes_per_item: int, free_bytes: int, share: float = SHARE) -> int:
        """How many slots may run now: the bucket, else half of it, and so on; 0 if not even one fits.

        What it grants is predicted to take at most `share` of `free_bytes`, takes no more than all of them at worst,
        and is below what ran out of memory.
        """
        limit = self._limits.get(kind, bucket)
        while (
            bucket > limit
            or self.predict(kind, bucket, preset_bytes_per_item) > share * free_bytes
            or self.most(kind, bucket, preset_bytes_per_item) > free_bytes
        ):
            if bucket == 1:
                return 0
            bucket = half(bucket)
        return bucket

    def _estimate(self, kind: str, bucket: int, preset_bytes_per_item: int, quantile: float) -> int:
        known = self._known(kind, quantile)
        if not known:
            return bucket * preset_bytes_per_item
        buckets = sorted(known)
        # More slots never take less: where the measures say so, they were of lighter prompts.
        peaks = dict(zip(buckets, accumulate((known[each] for each in buckets), max), strict=True))
        if bucket in peaks:
            return peaks[bucket]
        below = [each for each in buckets if each < bucket]
        above = [each for each in buckets if each > bucket]
        if below and above:
            return _on_line(bucket, (below[-1], peaks[below[-1]]), (above[0], peaks[above[0]]))
        if below:
            return _beyond(bucket, [(each, peaks[each]) for each in below[-2:]])
        return _before(bucket, [(each, peaks[each]) for each in above[:2]], preset_bytes_per_item)

    def _known(self, kind: str, quantile: float) -> dict[int, int]:
        own = {bucket: quantile_of(window, quantile) for bucket, window in self._seen.get(kind, {}).items()}
        return self._told.get(kind, {}) | own


def quantile_of(values: Collection[Number], quantile: float) -> Number:
    """By nearest rank: a value that was measured."""
    return sorted(values)[math.ceil(quantile * len(values)) - 1]


def _on_line(bucket: int, left: tuple[int, int], right: tuple[int, int]) -> int:
    (from_, low), (to, high) = left, right
    return low - (high - low) * (from_ - bucket) // (to - from_)  # rounded up, in whole numbers


def _beyond(bucket: int, points: list[tuple[int, int]]) -> int:
    """Of one point: as if all of it grew with the slots, which is more than can be."""
    first = (0, 0) if len(points) == 1 else points[0]
    return _on_line(bucket, first, points[-1])


def _before(bucket: int, points: list[tuple[int, int]], preset_bytes_per_item: int) -> int:
    """Of one point: each slot less saves what a slot costs by its preset, but no more than its share of the peak."""
    at, peak = points[0]
    if len(points) == 1:
        return peak - min(preset_bytes_per_item, peak // at) * (at - bucket)
    return max(0, _on_line(bucket, *points))
