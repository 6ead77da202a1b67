"""One operation's attempts against one monotonic deadline. The clock, the sleep and the dice are passed in."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timing:
    """What waiting needs from the outside."""

    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    draw: Callable[[], float] = random.random  # in [0, 1)


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses that double from `first_seconds` up to `most_seconds`."""

    first_seconds: float
    most_seconds: float

    def pause_seconds(self, attempts: int, draw: float) -> float:
        """After `attempts` >= 1 failures. Half of it is jitter, so that consumers do not return in step."""
        doublings = min(attempts - 1, 32)
        ceiling = min(self.most_seconds, self.first_seconds * 2.0**doublings)
        return ceiling * (0.5 + 0.5 * draw)


class Patience:
    """How much longer one operation may try."""

    def __init__(self, deadline_seconds: float, backoff: Backoff, timing: Timing) -> None:
        self._backoff = backoff
        self._timing = timing
        self._ends = timing.monotonic() + deadline_seconds
        self.attempts = 0

    @property
    def over(self) -> bool:
        return self._timing.monotonic() >= self._ends

    def wait(self) -> bool:
        """Pause before the next attempt. False at once where the pause would end past the deadline."""
        self.attempts += 1
        pause = self._backoff.pause_seconds(self.attempts, self._timing.draw())
        if self._timing.monotonic() + pause >= self._ends:
            return False
        self._timing.sleep(pause)
        return True
