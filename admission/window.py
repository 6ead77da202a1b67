"""The names of one requests partition: which request ids are taken, for how long, and by which decision."""

import heapq
from collections import deque
from collections.abc import Container, Iterator
from typing import NamedTuple


class Name(NamedTuple):
    """The decision that holds a name. `number` counts the decisions of the partition from 1."""

    number: int
    digest: str
    offset: int
    appended_ms: int
    job_id: str


class Window:
    """Names leave `window_ms` after their request was appended, by the clock handed in, never while their job is held.

    Whether a name is here depends only on the clock and on the jobs held, not on when expire() was called, so a window
    read from the logs equals the one that was lived through.
    """

    def __init__(self, window_ms: int) -> None:
        self._window_ms = window_ms
        self._names: dict[bytes, Name] = {}
        self._by_age: list[tuple[int, int, bytes]] = []  # heap: LogAppendTime may step back when a leader changes
        self._by_number: deque[tuple[int, bytes]] = deque()

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._names)

    def get(self, key: bytes, clock_ms: int, held: Container[str]) -> Name | None:
        """Who holds `key` at `clock_ms`, whether or not expire() has come that far."""
        name = self._names.get(key)
        if name is None or (self._over(name, clock_ms) and name.job_id not in held):
            return None
        return name

    def add(self, key: bytes, name: Name) -> None:
        """Numbers come in rising order; a later one of the same key takes the name over."""
        self._names[key] = name
        heapq.heappush(self._by_age, (name.appended_ms, name.number, key))
        self._by_number.append((name.number, key))

    def hold(self, key: bytes, name: Name) -> None:
        """Add a name whose job is outstanding and whose decision may have left the log."""
        if key not in self._names:
            self._names[key] = name
            heapq.heappush(self._by_age, (name.appended_ms, name.number, key))

    def expire(self, clock_ms: int, held: Container[str]) -> None:
        while self._by_age and self._by_age[0][0] + self._window_ms <= clock_ms:
            _, number, key = heapq.heappop(self._by_age)
            name = self._names.get(key)
            if name is not None and name.number == number and name.job_id not in held:
                del self._names[key]

    def release(self, key: bytes, job_id: str, clock_ms: int) -> None:
        """The job is no longer held: its name leaves now if its time is over."""
        name = self._names.get(key)
        if name is not None and name.job_id == job_id and self._over(name, clock_ms):
            del self._names[key]

    def oldest(self, clock_ms: int, otherwise: int) -> int:
        """The smallest number whose decision a later opening must read, or `otherwise`.

        A name that only its outstanding job holds is not counted: the job's own record carries it.
        """
        while self._by_number:
            number, key = self._by_number[0]
            name = self._names.get(key)
            if name is not None and name.number == number and not self._over(name, clock_ms):
                return number
            self._by_number.popleft()
        return otherwise

    def _over(self, name: Name, clock_ms: int) -> bool:
        return name.appended_ms + self._window_ms <= clock_ms
