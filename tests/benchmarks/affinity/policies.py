"""What ours stand beside: other ways for a request to find its partition, and arrival order."""

from collections import deque
from collections.abc import Sequence
from hashlib import blake2b
from itertools import takewhile

from admission.stages.route import preferred
from gpu_consumer.scheduling.scheduler import Chosen, Room, Unit
from infra.planner.request import Request
from schemas.request import Lane


class HashRouter:
    """By the hash of the configuration, as without a table."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions

    def partition(self, request: Request) -> int:
        return preferred(request.config.config_hash, self._partitions)

    def tick(self, now: float) -> None: ...


class SpreadRouter:
    """Any partition, as a producer does that keys by request."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions

    def partition(self, request: Request) -> int:
        return int.from_bytes(blake2b(b"%d" % request.number, digest_size=8).digest(), "big") % self._partitions

    def tick(self, now: float) -> None: ...


class ArrivalOrder:
    """The first, and those of its configuration that come within the batching window of it."""

    def __init__(self, bucket: int, batch_wait: float, arrivals: Sequence[float]) -> None:
        """`arrivals`: of each request, by its number."""
        self._bucket = bucket
        self._wait = batch_wait
        self._arrivals = arrivals
        self._waiting: deque[Unit] = deque()

    def add(self, unit: Unit, now: float) -> None:
        del now
        self._waiting.append(unit)

    def take(self, now: float, room: Room) -> Chosen | None:
        del room
        if not self._waiting:
            return None
        first, closes = self._waiting[0], self._closes()
        company = takewhile(lambda unit: self._arrival(unit) <= closes, self._waiting)
        batch = [unit for unit in company if unit.config_hash == first.config_hash][: self._bucket]
        if len(batch) < self._bucket and now < closes:
            return None
        for unit in batch:
            self._waiting.remove(unit)  # it stands near the front
        return Chosen(tuple(batch), now - self._arrival(first))

    def next_batch(self, now: float) -> float | None:
        del now
        return self._closes() if self._waiting else None

    def served(self, tenant: str, lane: Lane, gpu_seconds: float) -> None: ...

    def expired(self, now: float) -> Sequence[str]:
        """Nobody knows of deadlines here."""
        del now
        return []

    def discard(self, job: str) -> int:
        had = len(self._waiting)
        self._waiting = deque(unit for unit in self._waiting if unit.job != job)
        return had - len(self._waiting)

    def _arrival(self, unit: Unit) -> float:
        return self._arrivals[int(unit.job)]

    def _closes(self) -> float:
        return self._arrival(self._waiting[0]) + self._wait
