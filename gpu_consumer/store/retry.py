"""One operation's attempts against one monotonic deadline. The clock, the sleep and the dice are passed in."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from streams.backoff import Backoff


@dataclass(frozen=True, slots=True)
class Timing:
    """What waiting needs from the outside."""

    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    draw: Callable[[], float] = random.random  # in [0, 1)


class Patience:
    """How much longer one operation may try."""

    def __init__(self, deadline_seconds: float, first_seconds: float, most_seconds: float, timing: Timing) -> None:
        self._backoff = Backoff(first_seconds, most_seconds, timing.draw)
        self._timing = timing
        self._ends = timing.monotonic() + deadline_seconds
        self.attempts = 0

    @property
    def over(self) -> bool:
        return self._timing.monotonic() >= self._ends

    def wait(self) -> bool:
        """Pause before the next attempt. False at once where the pause would end past the deadline."""
        self.attempts += 1
        pause = self._backoff.next()
        if self._timing.monotonic() + pause >= self._ends:
            return False
        self._timing.sleep(pause)
        return True
