"""Which pictures run together next. Pure and synchronous: every call is given `now`, in seconds of one steady clock.

Pictures of one config hash may share a batch. A batch goes when it is full, or when its first picture has waited long
enough. It is asked for only when the engine is free, so that what comes late still joins: wait for a slot, then choose.
"""

import heapq
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from schemas.request import LANES, Lane

_RANK = {lane: rank for rank, lane in enumerate(LANES)}


@dataclass(frozen=True, slots=True)
class Unit:
    """One picture. A job of n pictures is n units of one `job`."""

    job: str
    n: int
    lane: Lane
    config_hash: str
    bucket: int
    deadline: float
    alone: bool = False  # its last batch killed the engine

    @property
    def group(self) -> tuple[str, ...]:
        return (self.config_hash, self.job, str(self.n)) if self.alone else (self.config_hash,)

    @property
    def batch_size(self) -> int:
        return 1 if self.alone else self.bucket


@dataclass(frozen=True, slots=True)
class Chosen:
    """Units of one config hash that run together, at most a bucket of them."""

    config_hash: str
    units: tuple[Unit, ...]
    waited_seconds: float  # of its first unit


class _Group:
    """The queued units that may share a batch: lane by lane, each in order of arrival."""

    def __init__(self, batch_size: int) -> None:
        self.batch_size = batch_size
        self.lanes: tuple[dict[tuple[str, int], tuple[Unit, float]], ...] = tuple({} for _ in LANES)

    def __len__(self) -> int:
        return sum(map(len, self.lanes))

    def units(self) -> Iterator[tuple[Unit, float]]:
        for lane in self.lanes:
            yield from lane.values()

    def first_arrival(self) -> float:
        return min(next(iter(lane.values()))[1] for lane in self.lanes if lane)

    def goes_at(self, batch_wait_seconds: float) -> float:
        """When a batch of it may go: at once if it is full."""
        return 0.0 if len(self) >= self.batch_size else self.first_arrival() + batch_wait_seconds

    def rank(self) -> tuple[int, float]:
        unit, arrival = next(self.units())
        return _RANK[unit.lane], arrival


class Scheduler:
    """Every unit that was added is queued, taken, expired or discarded; `check_integrity` proves it."""

    def __init__(self, batch_wait_seconds: float) -> None:
        self._wait = batch_wait_seconds
        self._groups: dict[tuple[str, ...], _Group] = {}
        self._jobs: dict[str, dict[int, Unit]] = {}
        self._deadlines: list[tuple[float, str]] = []  # a heap; an entry that is not the job's `_due` is stale
        self._due: dict[str, float] = {}  # the deadline of each job that is queued or held
        self._held: set[str] = set()
        self.counts: Counter[str] = Counter()

    def __len__(self) -> int:
        """Units that are queued."""
        return sum(map(len, self._jobs.values()))

    def add(self, unit: Unit, now: float) -> None:
        """Queue a unit, behind all others of its lane. Each (job, n) once at a time."""
        queued = self._jobs.setdefault(unit.job, {})
        assert unit.n not in queued, f"picture {unit.n} of job {unit.job} is queued already"
        queued[unit.n] = unit
        self.counts["added"] += 1
        self._held.discard(unit.job)
        self._expect(unit.job, unit.deadline)
        group = self._groups.setdefault(unit.group, _Group(unit.batch_size))
        group.lanes[_RANK[unit.lane]][unit.job, unit.n] = unit, now

    def hold(self, job: str, deadline: float) -> None:
        """Keep a job that cannot run now. It has no slot and lets others pass; `expired` gives it back in time."""
        self.discard(job)
        self._held.add(job)
        self._expect(job, deadline)

    def take(self, now: float) -> Chosen | None:
        """The next batch, or None while none may go. Lane first, then age. Call `expired` before."""
        ready = [group for group in self._groups.values() if group.goes_at(self._wait) <= now]
        if not ready:
            return None
        group = min(ready, key=_Group.rank)
        waited = now - group.first_arrival()
        units = tuple(unit for unit, _ in islice(group.units(), group.batch_size))
        for unit in units:
            self._remove(unit)
        self.counts["taken"] += len(units)
        return Chosen(units[0].config_hash, units, waited)

    def next_batch(self, now: float) -> float | None:
        """When `take` may give something if nothing is added meanwhile, not below `now`; None: never."""
        times = [group.goes_at(self._wait) for group in self._groups.values()]
        return max(now, min(times)) if times else None

    def next_deadline(self) -> float | None:
        """When `expired` will give something, if nothing changes meanwhile."""
        self._drop_stale_deadlines()
        return self._deadlines[0][0] if self._deadlines else None

    def expired(self, now: float) -> list[str]:
        """The jobs whose deadline is over while they wait. They leave with all units that are still queued."""
        jobs = []
        self._drop_stale_deadlines()
        while self._deadlines and self._deadlines[0][0] <= now:
            _, job = heapq.heappop(self._deadlines)
            self.counts["expired"] += self._leave(job)
            jobs.append(job)
            self._drop_stale_deadlines()
        return jobs

    def discard(self, job: str) -> int:
        """Forget a job; how many units left with it."""
        left = self._leave(job)
        self.counts["discarded"] += left
        return left

    def check_integrity(self) -> None:
        """Conservation, and one place for each unit. Asserts; for tests and for when the consumer is idle."""
        counts = self.counts
        assert counts["added"] == len(self) + counts["taken"] + counts["expired"] + counts["discarded"], counts
        grouped = [(unit.job, unit.n) for group in self._groups.values() for unit, _ in group.units()]
        queued = [(job, n) for job, units in self._jobs.items() for n in units]
        assert sorted(grouped) == sorted(queued), "a unit is lost or stands twice"
        assert all(len(group) for group in self._groups.values()), "an empty group was kept"
        assert not self._held & self._jobs.keys(), "a job is held and queued"
        assert self._due.keys() == self._held | self._jobs.keys(), "a job waits without a deadline"

    def _expect(self, job: str, deadline: float) -> None:
        if self._due.get(job) != deadline:
            self._due[job] = deadline
            heapq.heappush(self._deadlines, (deadline, job))

    def _drop_stale_deadlines(self) -> None:
        heap = self._deadlines
        if len(heap) > 2 * len(self._due) + 64:  # jobs mostly end long before their deadlines
            heap[:] = [(deadline, job) for job, deadline in self._due.items()]
            heapq.heapify(heap)
        while heap and self._due.get(heap[0][1]) != heap[0][0]:
            heapq.heappop(heap)

    def _remove(self, unit: Unit) -> None:
        units = self._jobs[unit.job]
        del units[unit.n]
        if not units:
            del self._jobs[unit.job], self._due[unit.job]
        group = self._groups[unit.group]
        del group.lanes[_RANK[unit.lane]][unit.job, unit.n]
        if not len(group):
            del self._groups[unit.group]

    def _leave(self, job: str) -> int:
        if job in self._held:
            self._held.remove(job)
            del self._due[job]
        units = list(self._jobs.get(job, {}).values())
        for unit in units:
            self._remove(unit)
        return len(units)
