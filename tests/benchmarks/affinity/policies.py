"""What ours stand beside: other ways for a request to find its partition, and arrival order."""

from collections import deque
from collections.abc import Callable, Sequence
from hashlib import blake2b
from itertools import takewhile

from admission.stages.route import preferred
from infra.planner.request import Request


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

    def __init__(self, bucket: int, batch_wait: float) -> None:
        self._bucket = bucket
        self._wait = batch_wait
        self._waiting: deque[Request] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, request: Request, now: float) -> None:
        del now
        self._waiting.append(request)

    def take(self, now: float, loaded: tuple[str, ...]) -> Sequence[Request]:
        del loaded
        if not self._waiting:
            return []
        first = self._waiting[0]
        company = takewhile(lambda request: request.arrival <= first.arrival + self._wait, self._waiting)
        batch = [request for request in company if request.config is first.config][: self._bucket]
        if len(batch) < self._bucket and now < first.arrival + self._wait:
            return []
        for request in batch:
            self._waiting.remove(request)  # it stands near the front
        return batch

    def next_at(self, now: float) -> float | None:
        del now
        return self._waiting[0].arrival + self._wait if self._waiting else None

    def expired(self, now: float) -> list[Request]:
        """Nobody knows of deadlines here."""
        del now
        return []

    def ran(self, request: Request, seconds: float) -> None: ...

    def give_back(self, lost: Callable[[Request], bool]) -> list[Request]:
        left = [request for request in self._waiting if lost(request)]
        self._waiting = deque(request for request in self._waiting if not lost(request))
        return left
