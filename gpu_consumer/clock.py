"""The two clocks of a consumer: a steady one to wait by, and the wall, which events and marks speak of."""

import time
from datetime import UTC, datetime


class Clock:
    """Replaced in tests."""

    def steady(self) -> float:
        """Seconds that never go back."""
        return time.monotonic()

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.wall_ms() / 1000, tz=UTC)

    def steady_of(self, wall_ms: int) -> float:
        """The steady time at which the wall will say `wall_ms`, by what it says now."""
        return self.steady() + (wall_ms - self.wall_ms()) / 1000
