"""Waiting for a condition under one deadline."""

import time
from collections.abc import Callable

POLL_SECONDS = 0.05


class TooLate(Exception):
    """The deadline passed before the condition held; the sentence names the condition."""


class Deadline:
    """One monotonic moment by which everything must have happened."""

    def __init__(self, seconds: float) -> None:
        self._started = time.monotonic()
        self._at = self._started + seconds

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._started

    @property
    def left(self) -> float:
        """Seconds left, 0 when it is over."""
        return max(0.0, self._at - time.monotonic())

    def wait_for(
        self,
        condition: Callable[[], bool],
        what: str,
        *,
        seconds: float | None = None,
        meanwhile: Callable[[], None] = lambda: None,
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        """Block until `condition` holds, calling `meanwhile` between looks. Raises TooLate after `seconds`, or at the
        deadline, whichever comes first."""
        give_up = min(self._at, time.monotonic() + seconds) if seconds is not None else self._at
        while not condition():
            if time.monotonic() > give_up:
                raise TooLate(f"waited in vain for {what}, {self.elapsed:.0f} s after the start")
            meanwhile()
            time.sleep(poll_seconds)

    def pause(self, seconds: float, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Let `seconds` pass. Raises TooLate where the deadline comes first."""
        until = time.monotonic() + seconds
        self.wait_for(lambda: time.monotonic() >= until, f"{seconds:.1f} s to pass", meanwhile=meanwhile)
