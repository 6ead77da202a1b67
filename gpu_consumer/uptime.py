"""The time of this process, by what its engine did, in hours of the wall's clock. Pure: times are passed in."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime

from schemas.cost import Price
from schemas.uptime import HOUR_SECONDS, STATES, State, Uptime


class Meter:
    """Begins at `now` of the steady clock, loading. Every moment since belongs to one state: a process that was frozen
    was paid meanwhile, too."""

    def __init__(self, now: float) -> None:
        self._state: State = "loading"
        self._at = now
        self._wall_ms = 0
        self._hours: dict[int, dict[State, float]] = {}
        self._news: set[int] = set()

    def enter(self, state: State, now: float, wall_ms: int) -> dict[State, float]:
        """From now on it is `state`. Returns the seconds since the last call, by the state that they were."""
        seconds = self.advance(now, wall_ms)
        self._state = state
        return seconds

    def advance(self, now: float, wall_ms: int) -> dict[State, float]:
        """Counts up to `now`, at which the wall says `wall_ms`. Returns the seconds since the last call."""
        left = seconds = max(0.0, now - self._at)
        self._at, self._wall_ms = max(self._at, now), wall_ms
        end = wall_ms / 1000
        while left > 0:
            hour = int(end // HOUR_SECONDS) - (end % HOUR_SECONDS == 0)
            part = min(left, end - hour * HOUR_SECONDS)
            self._hours.setdefault(hour, defaultdict(float))[self._state] += part
            self._news.add(hour)
            left, end = left - part, float(hour * HOUR_SECONDS)
        return {self._state: seconds} if seconds else {}

    def news(self, price: Price, consumer: str) -> list[Uptime]:
        """The hours of which there is more to tell than the last time, oldest first; hours that are over are forgotten
        with the next call, unless they are untold()."""
        newest = max(self._hours, default=0)
        self._hours = {hour: each for hour, each in self._hours.items() if hour in self._news or hour == newest}
        told, self._news = sorted(self._news), set()
        return [self._record(hour, price, consumer) for hour in told]

    def untold(self, records: Iterable[Uptime]) -> None:
        """These could not be written."""
        self._news |= {int(each.hour.timestamp()) // HOUR_SECONDS for each in records}

    def _record(self, hour: int, price: Price, consumer: str) -> Uptime:
        by_state = self._hours[hour]
        # A wall clock that was set back may give an hour more than it has.
        seconds = {f"{state}_seconds": min(round(by_state.get(state, 0.0), 3), HOUR_SECONDS) for state in STATES}
        begins = hour * HOUR_SECONDS
        return Uptime(
            pool=price.pool,
            consumer=consumer,
            hour=datetime.fromtimestamp(begins, tz=UTC),
            at=datetime.fromtimestamp(min(self._wall_ms / 1000, begins + HOUR_SECONDS), tz=UTC),
            price_usd_per_hour=price.usd_per_hour,
            **seconds,
        )
