"""What waits for a pool and who serves it, as the partitions and the pool's group told last."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Wait:
    """`backlog` is lane -> GPU-seconds of all requests partitions, `told` the part of each partition in it. `gpus` is
    how many consumers the pool has now; None: not known."""

    backlog: Mapping[str, float] = field(default_factory=dict)
    told: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    gpus: int | None = None

    def besides(self, partition: int) -> dict[str, float]:
        """The backlog without what `partition` told of itself: its owner knows better."""
        own = self.told.get(partition, {})
        return {lane: max(0.0, seconds - own.get(lane, 0.0)) for lane, seconds in self.backlog.items()}


NOTHING_TOLD = Wait()
