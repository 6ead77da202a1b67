"""Is the consumer alive? Heartbeats do not tell: a client's fetching can die without a word (case AIO-04). Pure."""

from collections.abc import Hashable


class ProgressWatch:
    """Remembers when anything moved last. Times are seconds of one steady clock."""

    def __init__(self, timeout_seconds: float, now: float) -> None:
        self._timeout = timeout_seconds
        self._moved_at = now
        self._position: Hashable = None
        self.stalled_seconds = 0.0  # as of the last look; 0 while anything moves, or nothing has to

    def look(
        self, now: float, position: Hashable, *, undone: str | None, busy: bool, waiting_for: str | None
    ) -> str | None:
        """A sentence where nothing moved for too long although something is `undone`, else None.

        `position` is anything that changes with progress; `busy`: something is in flight; `waiting_for` names a wait
        that is nobody's fault here, such as a store that is down.
        """
        if position != self._position or undone is None or busy or waiting_for is not None:
            self._position = position
            self._moved_at = now
        self.stalled_seconds = now - self._moved_at
        if self.stalled_seconds < self._timeout:
            return None
        return f"{undone}, nothing is in flight, and nothing moved for {self.stalled_seconds:.0f} s"
