"""What KEDA makes of a group's offsets, and when it wakes a deployment or lays it to sleep. Pure.

The arithmetic is that of KEDA 2.21: pkg/scalers/kafka_scaler.go (getLagForPartition, getTotalLag) with
offsetResetPolicy earliest, excludePersistentLag and allowIdleConsumers off, as our manifests set them, and
pkg/scaling/executor/scale_scaledobjects.go (RequestScale).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Partition:
    """Offsets. `committed`: of the group, None where it has none or they expired; `start`: the oldest that is kept."""

    committed: int | None
    start: int
    end: int

    @property
    def lag(self) -> int:
        """Without a committed offset all that is kept counts, so also what was consumed long ago. A committed offset
        counts as it is, even where what followed it is no longer kept."""
        if self.committed is None:
            return max(0, self.end - self.start)
        return self.end - self.committed


def lag_of(partitions: Sequence[Partition], *, threshold: int) -> int:
    """The value of one trigger, of one lane. No more than gives each partition a replica; by the integer division
    something less than a threshold more passes, and may make one replica more."""
    return capped(sum(partition.lag for partition in partitions), len(partitions), threshold=threshold)


def capped(lag: int, partitions: int, *, threshold: int) -> int:
    """The same where the sum is known."""
    return partitions * threshold if _divided(lag, threshold) > partitions else lag


def summed(lanes: Iterable[int]) -> int:
    """What the formula of our scaling modifiers makes of the lanes' triggers. Without one KEDA takes the highest."""
    return sum(lanes)


def active(value: float, activation: float) -> bool:
    """Whether there is something to do: above, not at."""
    return value > activation


class Activation:
    """Between none and some: what KEDA does by itself at each poll. The rest it leaves to the HPA."""

    def __init__(self, replicas_min: int, cooldown_seconds: float) -> None:
        self._min = replicas_min
        self._cooldown = cooldown_seconds
        self._last_active: float | None = None

    def wish(self, now: float, is_active: bool, have: int) -> int:
        """Replicas after a poll at `now`: from none to `replicas_min`, at least 1, at once; to none, from however
        many, when it has been quiet for longer than the cooldown."""
        if is_active:
            self._last_active = now
            return have or max(1, self._min)
        if self._min:
            return max(have, self._min)
        quiet = self._last_active is None or now - self._last_active > self._cooldown
        return 0 if quiet else have


def _divided(lag: int, threshold: int) -> int:
    """Towards zero, as in Go."""
    return -(-lag // threshold) if lag < 0 else lag // threshold
