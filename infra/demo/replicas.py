"""How many consumers KEDA would have a pool run, by its real group's offsets. Nothing is scaled."""

from collections.abc import Iterable, Sequence

from infra.scaling.hpa import SYNC_SECONDS, Behaviour, Hpa
from infra.scaling.keda import Activation, Partition, active, lag_of, summed
from infra.scaling.threshold import item_seconds_of, lag_threshold
from schemas.catalogue import ConfigCatalogue
from schemas.pools import Pool
from streams.kafka.lag import Offsets


class Replicas:
    """Of one pool. From zero it is KEDA's word at each of its polls, from one on the HPA's at each of its looks."""

    def __init__(self, pool: Pool, name: str, configs: ConfigCatalogue) -> None:
        """Raises CatalogueError where nothing says what a job takes."""
        self._threshold = lag_threshold(pool.scaling.wait_seconds, item_seconds_of(pool, name, configs))
        self._activation = Activation(pool.replicas_min, pool.scaling.cooldown_seconds)
        self._hpa = Hpa(Behaviour.of(pool.scaling), pool.replicas_min, pool.replicas_max)
        self._polling_seconds = pool.scaling.polling_seconds
        self._poll_at = float("-inf")
        self._look_at: float | None = None
        self.now = self.most = pool.replicas_min

    def look(self, now: float, lanes: Iterable[Sequence[Offsets]]) -> int:
        """What there would be at `now`, in seconds, by the partitions of each lane."""
        value = summed(
            lag_of([Partition(each.committed, each.start, each.end) for each in lane], threshold=self._threshold)
            for lane in lanes
            if lane
        )
        if self._look_at is None:  # it looks at times of its own: on the average half of them after the first work
            self._look_at = now + SYNC_SECONDS / 2
        if now >= self._look_at:
            self._look_at = now + SYNC_SECONDS
            self.now = self._hpa.wish(now, value, self._threshold, self.now)
        if now >= self._poll_at:
            self._poll_at = now + self._polling_seconds
            self.now = self._activation.wish(now, active(value, 0), self.now)
        self.most = max(self.most, self.now)
        return self.now
