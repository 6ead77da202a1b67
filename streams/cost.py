"""What a period cost: by tenant, config and pool as results say it, and what pools cost whether they drew or not. Pure.

Two sources. Results carry what each request is charged, exactly once. `uptime` says how long each consumer was there:
that is what is paid, and what of it nobody is charged with is its pool's own. Both are kept for a while only.
"""

from calendar import monthrange
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from math import isfinite

from schemas.cost import cost_usd, rounded
from schemas.result import Cancelled, Expired, Failed, GenerationResult, Succeeded
from schemas.uptime import STATES, State, Uptime

_DAY_SECONDS = 86_400
_HOUR = timedelta(hours=1)
_YEARS = 1970, 9998  # hours are added to both ends
UNKNOWN = "?"  # a pool or config that a result does not name


@dataclass(slots=True)
class Charged:
    """Sums of results. `unpriced`: of requests that used a GPU under an earlier release, which told no cost."""

    requests: int = 0
    gpu_seconds: float = 0.0
    usd: Decimal = Decimal("0.000000")
    unpriced: int = 0

    def add(self, gpu_seconds: float, usd: float | None) -> None:
        self.requests += 1
        self.gpu_seconds += gpu_seconds if isfinite(gpu_seconds) and gpu_seconds > 0 else 0.0
        if usd is None:
            self.unpriced += gpu_seconds > 0  # else it was ended at the door
        elif isfinite(usd) and usd > 0:
            self.usd += rounded(Decimal(repr(usd)))


@dataclass(slots=True)
class Held:
    """Of a pool: how long its consumers were there, and what that costs at the price of each hour."""

    consumers: int = 0
    seconds: dict[State, float] = field(default_factory=lambda: dict.fromkeys(STATES, 0.0))
    usd: dict[State, Decimal] = field(default_factory=lambda: dict.fromkeys(STATES, Decimal("0.000000")))

    @property
    def total_usd(self) -> Decimal:
        return sum(self.usd.values(), Decimal("0.000000"))


@dataclass(frozen=True, slots=True)
class Projection:
    """Of the month that holds the end of the period, if all of it goes as the covered part of the period did."""

    month: str
    month_hours: int
    covered_hours: float

    def of(self, usd: Decimal) -> Decimal:
        return rounded(usd * Decimal(self.month_hours) / Decimal(repr(self.covered_hours)))

    def __str__(self) -> str:
        return f"{self.month}, if all its {self.month_hours} hours go as the {self.covered_hours:.2f} covered here did"


class Costs:
    """Of [since, until), widened to full hours of UTC: consumers tell no less. `now`: what is later is unknown."""

    def __init__(self, since: datetime, until: datetime, now: datetime) -> None:
        """Raises ValueError where nothing lies between, where it has not begun, or where a calendar ends."""
        if since.year < _YEARS[0] or until.year > _YEARS[1]:
            raise ValueError(f"the period leaves the years {_YEARS[0]} to {_YEARS[1]}; take one of them")
        if since >= now:
            raise ValueError(f"the period has not begun, it is {now:%Y-%m-%dT%H:%M:%SZ}; give a --since that is over")
        if since >= until:
            raise ValueError("the period ends before it begins; give an --until that is later than --since")
        self.since = _full_hour(since)
        self.until = until if until == _full_hour(until) else _full_hour(until) + _HOUR
        self._ended = min(until, now)
        self.tenants: dict[str, Charged] = defaultdict(Charged)
        self.configs: dict[str, Charged] = defaultdict(Charged)
        self.pools: dict[str, Charged] = defaultdict(Charged)
        self._hours: dict[bytes, Uptime] = {}
        self._first: datetime | None = None

    def fold_result(self, result: GenerationResult) -> None:
        """What was refused cost nothing, and is not counted."""
        if not isinstance(result, Succeeded | Failed | Cancelled | Expired):
            return
        self._see(result.finished_at)
        if not self.since <= result.finished_at < self.until:
            return
        config = UNKNOWN if result.config is None else f"{result.config.name}@{result.config.version}"
        for sums, name in ((self.tenants, result.tenant), (self.configs, config), (self.pools, result.pool or UNKNOWN)):
            sums[name].add(result.gpu_seconds, result.cost_usd)

    def fold_uptime(self, record: Uptime) -> None:
        """In the order of the log: of each consumer and hour the newest counts."""
        self._see(record.since)
        if self.since <= record.hour < self.until:
            self._hours[record.key] = record

    def held(self) -> dict[str, Held]:
        found: dict[str, Held] = defaultdict(Held)
        consumers: dict[str, set[str]] = defaultdict(set)
        for record in self._hours.values():
            held = found[record.pool]
            consumers[record.pool].add(record.consumer)
            held.consumers = len(consumers[record.pool])
            for state in STATES:
                held.seconds[state] += record.seconds(state)
                held.usd[state] += cost_usd(record.seconds(state), record.price_usd_per_hour)
        return dict(sorted(found.items()))

    @property
    def covered_hours(self) -> float:
        """How much of the period anything is known of; 0: nothing."""
        if self._first is None:
            return 0.0
        return max(0.0, (self._ended - max(self.since, self._first)).total_seconds() / 3600)

    def projection(self, hours_min: float) -> Projection | None:
        """None where less is covered than `hours_min`: a month would be made of a minute's chances."""
        covered = self.covered_hours
        if covered <= 0 or covered < hours_min:
            return None
        last = self._ended - timedelta(microseconds=1)
        days = monthrange(last.year, last.month)[1]
        return Projection(f"{last:%Y-%m}", days * _DAY_SECONDS // 3600, covered)

    def _see(self, at: datetime) -> None:
        """Before the first that is known nothing is: the deployment is younger, or what it said is not kept."""
        self._first = at if self._first is None else min(at, self._first)


def _full_hour(at: datetime) -> datetime:
    return at.replace(minute=0, second=0, microsecond=0)
