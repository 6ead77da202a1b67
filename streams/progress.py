"""Liveness is progress: a process whose heartbeats are fine may still do nothing (cases AIO-04, FST-07)."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

P = TypeVar("P", bound=Hashable)


@dataclass(slots=True)
class _Seen:
    next: int
    since: float


class ProgressWatch(Generic[P]):
    """Tells which partition has lag and has not moved for `stall_seconds`. Time is passed in, in seconds."""

    def __init__(self, stall_seconds: float, name: Callable[[P], str] = "requests[{}]".format) -> None:
        self._stall_seconds = stall_seconds
        self._name = name
        self._seen: dict[P, _Seen] = {}

    def look(self, partition: P, next_offset: int, lag: int, waiting_for: str | None, now: float) -> None:
        """A named wait counts as alive: what is waited for has its own alarm, and a restart would not bring it."""
        if lag <= 0 or waiting_for is not None:
            self._seen.pop(partition, None)
            return
        seen = self._seen.get(partition)
        if seen is None or seen.next != next_offset:
            self._seen[partition] = _Seen(next_offset, now)

    def keep(self, partitions: set[P]) -> None:
        """Forget the others: they are another process's now, or nobody can tell their lag."""
        self._seen = {number: seen for number, seen in self._seen.items() if number in partitions}

    def stalled_seconds(self, now: float) -> float:
        """Of the partition that has stood the longest; 0 where none has lag."""
        return max((now - seen.since for seen in self._seen.values()), default=0.0)

    def stalled(self, now: float) -> str | None:
        for partition, seen in self._seen.items():
            if now - seen.since > self._stall_seconds:
                return (
                    f"{self._name(partition)} has lag and has stood at {seen.next} for {now - seen.since:.0f} s; "
                    "restart this process"
                )
        return None
