"""The time of a virtual device in real, scaled seconds, and how well it is kept. No imports of ours."""

from collections import deque

# A device that is given its next work so soon after the last never noticed: on a real one it would have been queued
# meanwhile. Sleeping is that inexact, and in scaled time it would be counted as work.
SLACK_SECONDS = 0.005
_KEPT = 1 << 16


class VirtualClock:
    """Pure: real monotonic seconds are passed in. `scale`: real seconds for one of the device.

    `late`: seconds by which each of the last sleeps came back too late. `busy_seconds`: given to the device so far.
    `lost_seconds`: what the device stood still for being given work later than the slack allows, idle time included.
    """

    def __init__(self, scale: float) -> None:
        assert scale > 0
        self._scale = scale
        self._free_at: float | None = None
        self.late: deque[float] = deque(maxlen=_KEPT)
        self.busy_seconds = 0.0
        self.lost_seconds = 0.0

    def begin(self, seconds: float, now: float) -> float:
        """Work of so many seconds of the device is given to it now; when it is done, in real seconds."""
        start = now
        if self._free_at is not None:
            if now - self._free_at <= SLACK_SECONDS:
                start = self._free_at
            else:
                self.lost_seconds += now - self._free_at
        self.busy_seconds += seconds * self._scale
        self._free_at = start + seconds * self._scale
        return self._free_at

    def woke(self, now: float) -> None:
        """Whoever slept until the end of the work given last is back."""
        assert self._free_at is not None
        self.late.append(max(0.0, now - self._free_at))
