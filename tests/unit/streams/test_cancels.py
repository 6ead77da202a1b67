"""What is kept of the cancels topic."""

from types import SimpleNamespace
from typing import Any

from streams.cancels import CancelTimes

KEPT_MS = 1000


def cancel(key: bytes | None, at_ms: int, value: bytes | None = b"{}") -> Any:
    return SimpleNamespace(key=key, value=value, timestamp=at_ms)


def test_one_that_is_taken_back_is_not_known() -> None:
    times = CancelTimes(KEPT_MS)
    for record in (cancel(b"blue/a", 0), cancel(b"blue/b", 1), cancel(b"blue/a", 2, value=None), cancel(None, 3)):
        times.fold(record)
    assert times.known == {b"blue/b": 1}


def test_what_the_topic_has_dropped_is_dropped_here_too() -> None:
    times = CancelTimes(KEPT_MS)
    for n in range(100):
        times.fold(cancel(f"blue/{n}".encode(), n))
    times.fold(cancel(b"blue/0", 200))  # again: the newest counts
    times.fold(cancel(b"blue/last", 99 + KEPT_MS))
    assert times.known == {b"blue/99": 99, b"blue/0": 200, b"blue/last": 99 + KEPT_MS}
