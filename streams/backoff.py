"""Waiting longer after each failure, with jitter, so that many who failed together do not return together."""

import random
from collections.abc import Callable


class Backoff:
    """Seconds to wait: doubling from `seconds_min` to `seconds_max`, each drawn between half of it and the whole.

    `draw` gives numbers from 0 to 1; jitter needs no secret.
    """

    def __init__(self, seconds_min: float, seconds_max: float, draw: Callable[[], float] = random.random) -> None:
        self._seconds_min = seconds_min
        self._seconds_max = seconds_max
        self._seconds = seconds_min
        self._draw = draw

    def next(self) -> float:
        """The next wait, in seconds."""
        ceiling, self._seconds = self._seconds, min(self._seconds * 2, self._seconds_max)
        return ceiling * (0.5 + 0.5 * self._draw())

    def reset(self) -> None:
        self._seconds = self._seconds_min
