"""Where queued units stand: by what may share a batch, by whether that may go now, by model. Pure.

A group whose units run whole waits for company, until its bucket is full or its first unit has waited long enough.
"""

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gpu_consumer.scheduling.fairness import Entry, FairQueue, Shares
from schemas.request import LANES, Lane


@dataclass(frozen=True, slots=True)
class Unit:
    """One picture. A job of n pictures is n units of one `job`.

    `kind`: what may share a batch; `model`: what must be loaded for it; `joins`: at any step, else it runs whole;
    `seconds`: of the GPU, as expected; `alone`: an engine died with it, so nobody else may be there next time;
    `run_seconds`: from its slot to its picture, by the quickest lately; 0: not known.
    """

    job: str
    n: int
    tenant: str
    lane: Lane
    config_hash: str
    kind: str
    model: str
    bucket: int
    joins: bool
    deadline: float
    seconds: float
    alone: bool = False
    run_seconds: float = 0.0

    @property
    def starts_by(self) -> float:
        """What starts later cannot end before its deadline, as far as is known."""
        return self.deadline - self.run_seconds

    @property
    def group(self) -> str:
        return f"{self.kind}/{self.job}/{self.n}" if self.alone else self.kind


@dataclass(slots=True, eq=False)
class Queued(Entry):
    unit: Unit
    arrival: float


class Group:
    """The queued units that may share a batch."""

    def __init__(self, unit: Unit, shares: Shares) -> None:
        self.key = unit.group
        self.alone = unit.alone
        self.patient = not (unit.joins or unit.alone)  # it waits for company
        self.bucket = 1 if unit.alone else unit.bucket
        self.ready = False
        self.queue: FairQueue[Queued] = FairQueue(shares)
        self.entries: dict[int, Queued] = {}
        self._arrivals: list[tuple[float, int]] = []  # a heap, with stale entries

    def add(self, entry: Queued) -> None:
        self.entries[entry.number] = entry
        self.queue.add(entry)
        if len(self._arrivals) > 2 * len(self.entries) + 64:
            self._arrivals = [(each.arrival, each.number) for each in self.entries.values()]
            heapq.heapify(self._arrivals)
        else:
            heapq.heappush(self._arrivals, (entry.arrival, entry.number))

    def remove(self, entry: Queued) -> None:
        del self.entries[entry.number]
        self.queue.remove(entry)

    def first_arrival(self) -> float:
        while self._arrivals[0][1] not in self.entries:
            heapq.heappop(self._arrivals)
        return self._arrivals[0][0]

    def goes_at(self, batch_wait_seconds: float) -> float:
        """When it may go: at once if it is full, or if nobody has to wait."""
        if not self.patient or len(self.entries) >= self.bucket:
            return 0.0
        return self.first_arrival() + batch_wait_seconds


class Queues:
    """Each unit stands in one group; in `ready` and with its model while that group may go."""

    def __init__(self, batch_wait_seconds: float, shares: Shares, numbers: Iterator[int]) -> None:
        """`numbers`: in the order of arrival, each once."""
        self._wait = batch_wait_seconds
        self._shares = shares
        self.ready: FairQueue[Queued] = FairQueue(shares)
        self._models: dict[str, FairQueue[Queued]] = {}  # what is ready, without those that must be alone
        self._groups: dict[str, Group] = {}
        self._timers: list[tuple[float, str]] = []  # a heap: when a group that waits for company may go
        self._jobs: dict[str, dict[int, Queued]] = {}
        self._tenants: dict[Lane, Counter[str]] = {lane: Counter() for lane in LANES}  # units queued
        self._numbers = numbers

    def __len__(self) -> int:
        return sum(len(group.entries) for group in self._groups.values())

    def group(self, key: str) -> Group | None:
        return self._groups.get(key)

    def group_of(self, entry: Queued) -> Group:
        return self._groups[entry.unit.group]

    def of_model(self, model: str) -> FairQueue[Queued] | None:
        """What may go now with this model, if anything may."""
        return self._models.get(model)

    def jobs(self) -> Iterable[str]:
        return self._jobs.keys()

    def has(self, job: str) -> bool:
        return job in self._jobs

    def of_job(self, job: str) -> list[Queued]:
        return list(self._jobs.get(job, {}).values())

    def add(self, unit: Unit, now: float) -> None:
        """Each (job, n) once at a time."""
        self._begin(unit)
        self._put(Queued(unit.lane, unit.tenant, unit.deadline, next(self._numbers), unit, now), now)

    def move(self, job: str, other: "Queues", now: float) -> None:
        """What is queued of the job, to queues over the same shares. It keeps its place in the order of arrival, and
        nobody's service changes."""
        for entry in self.of_job(job):
            self.remove(entry)
            other._put(entry, now)

    def _put(self, entry: Queued, now: float) -> None:
        unit = entry.unit
        queued = self._jobs.setdefault(unit.job, {})
        assert unit.n not in queued, f"picture {unit.n} of job {unit.job} is queued already"
        queued[unit.n] = entry
        self._tenants[unit.lane][unit.tenant] += 1
        group = self._groups.get(unit.group)
        if group is None:
            group = self._groups[unit.group] = Group(unit, self._shares)
        group.add(entry)
        if group.ready:
            self._make_ready(group, entry)
        else:
            self._look_at(group, now)

    def remove(self, entry: Queued) -> None:
        unit = entry.unit
        units = self._jobs[unit.job]
        del units[unit.n]
        if not units:
            del self._jobs[unit.job]
        self._unready(entry)
        group = self._groups[unit.group]
        group.remove(entry)
        if not group.entries:
            del self._groups[unit.group]
        tenants = self._tenants[unit.lane]
        tenants[unit.tenant] -= 1
        if not tenants[unit.tenant]:
            del tenants[unit.tenant]

    def was_taken_from(self, group: Group, now: float) -> None:
        """Fewer than a bucket may be left of it, and these wait again."""
        if group.entries and group.ready and group.goes_at(self._wait) > now:
            group.ready = False
            for entry in group.entries.values():
                self._unready(entry)
            self._look_at(group, now)

    def promote(self, now: float) -> None:
        """Let go what has waited long enough."""
        while (at := self.next_at()) is not None and at <= now:
            self._look_at(self._groups[heapq.heappop(self._timers)[1]], now)

    def next_at(self) -> float | None:
        """When `promote` will let something go. A timer counts while its group waits for exactly it."""
        while self._timers:
            at, key = self._timers[0]
            group = self._groups.get(key)
            if group is not None and not group.ready and group.goes_at(self._wait) == at:
                return at
            heapq.heappop(self._timers)
            if group is not None and not group.ready and group.goes_at(self._wait) > at:
                heapq.heappush(self._timers, (group.goes_at(self._wait), key))  # its first unit has left
        return None

    def check(self) -> None:
        """One place for each unit. Asserts."""
        grouped = sorted(number for group in self._groups.values() for number in group.entries)
        queued = sorted(entry.number for units in self._jobs.values() for entry in units.values())
        assert grouped == queued, "a unit is lost or stands twice"
        assert all(group.entries for group in self._groups.values()), "an empty group was kept"
        ready = [group for group in self._groups.values() if group.ready]
        assert sum(len(group.entries) for group in ready) == len(self.ready), "what may go stands elsewhere"
        modelled = sum(len(group.entries) for group in ready if not group.alone)
        assert modelled == sum(map(len, self._models.values())), "what may go stands with another model"
        waiting = sum(sum(tenants.values()) for tenants in self._tenants.values())
        assert waiting == len(queued), "a tenant's units were miscounted"

    def _begin(self, unit: Unit) -> None:
        """A lane or tenant that comes back starts at the level of those who waited."""
        tenants = self._tenants[unit.lane]
        if not tenants:
            self._shares.begin(unit.lane, self.ready.least_lane())
        if unit.tenant not in tenants:
            self._shares.begin_tenant(unit.lane, unit.tenant, self.ready.least_tenant(unit.lane))
            self._shares.forget_idle(unit.lane, tenants)

    def _look_at(self, group: Group, now: float) -> None:
        at = group.goes_at(self._wait)
        if at > now:
            heapq.heappush(self._timers, (at, group.key))
            return
        group.ready = True
        for entry in group.entries.values():
            self._make_ready(group, entry)

    def _make_ready(self, group: Group, entry: Queued) -> None:
        self.ready.add(entry)
        if not group.alone:
            model = self._models.get(entry.unit.model)
            if model is None:
                model = self._models[entry.unit.model] = FairQueue(self._shares)
            model.add(entry)

    def _unready(self, entry: Queued) -> None:
        self.ready.remove(entry)
        model = self._models.get(entry.unit.model)
        if model is not None:
            model.remove(entry)
            if not len(model):
                del self._models[entry.unit.model]
