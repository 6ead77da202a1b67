"""Which pictures run next. Pure and synchronous: every call is given `now`, in seconds of one steady clock.

It is asked when there is room, so that what comes late still joins: wait for a slot, then choose. Turns go by lane
weight, then to the least-served tenant, then to the earliest deadline. Pictures of the kind that runs, or of a loaded
model, may pass the one whose turn it is: so many of them, and for so long; then nothing more joins until what runs has
drained, and the turn is kept. Pictures that run whole wait for company; the others do not, for it joins them later.
"""

import heapq
from collections import Counter, OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

from gpu_consumer.fairness import Entry, FairQueue, Shares
from schemas.request import Lane

LANE_WEIGHTS: Mapping[Lane, float] = {"interactive": 16.0, "standard": 4.0, "bulk": 1.0}


@dataclass(frozen=True, slots=True)
class Unit:
    """One picture. A job of n pictures is n units of one `job`.

    `kind`: what may share a batch; `model`: what must be loaded for it; `joins`: at any step, else it runs whole;
    `seconds`: of the GPU, as expected; `alone`: an engine died with it, so nobody else may be there next time.
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

    @property
    def group(self) -> str:
        return f"{self.kind}/{self.job}/{self.n}" if self.alone else self.kind


@dataclass(frozen=True, slots=True)
class Room:
    """What the engine could take now.

    `kind`: what runs, or will when all that was sent has joined; None: whatever is chosen starts a batch of its own.
    `slots`: how many more of that kind; of a new one its bucket decides. `models`: those that are loaded. `idle`:
    nothing is in the engine. `limit`: of units, for other reasons.
    """

    kind: str | None = None
    slots: int = 0
    models: tuple[str, ...] = ()
    idle: bool = True
    limit: int = 1 << 30


@dataclass(frozen=True, slots=True)
class Chosen:
    """Units of one kind, that may run together."""

    units: tuple[Unit, ...]
    waited_seconds: float  # of the one that came first

    @property
    def kind(self) -> str:
        return self.units[0].kind


@dataclass(slots=True, eq=False)
class _Queued(Entry):
    unit: Unit
    arrival: float


class _Group:
    """The queued units that may share a batch."""

    def __init__(self, unit: Unit, shares: Shares) -> None:
        self.key = unit.group
        self.alone = unit.alone
        self.patient = not (unit.joins or unit.alone)  # it waits for company
        self.bucket = 1 if unit.alone else unit.bucket
        self.ready = False
        self.queue: FairQueue[_Queued] = FairQueue(shares)
        self.entries: OrderedDict[int, _Queued] = OrderedDict()  # by arrival

    def first_arrival(self) -> float:
        return next(iter(self.entries.values())).arrival

    def goes_at(self, batch_wait_seconds: float) -> float:
        """When it may go: at once if it is full, or if nobody has to wait."""
        if not self.patient or len(self.entries) >= self.bucket:
            return 0.0
        return self.first_arrival() + batch_wait_seconds


class Scheduler:
    """Every unit that was added is queued, taken, expired or discarded; `check_integrity` proves it.

    `look_ahead` is how many units may pass the one whose turn it is, and `affinity_wait_seconds` for how long.
    """

    def __init__(
        self,
        batch_wait_seconds: float,
        *,
        affinity_wait_seconds: float = 0.0,
        lane_weights: Mapping[Lane, float] = LANE_WEIGHTS,
        look_ahead: int = 256,
    ) -> None:
        self._wait = batch_wait_seconds
        self._affinity_wait = affinity_wait_seconds
        self._look_ahead = look_ahead
        self._shares = Shares(lane_weights)
        self._ready: FairQueue[_Queued] = FairQueue(self._shares)  # what may go now
        self._models: dict[str, FairQueue[_Queued]] = {}  # the same by model, without those that must be alone
        self._groups: dict[str, _Group] = {}
        self._timers: list[tuple[float, str]] = []  # a heap: when a group that waits for company may go
        self._jobs: dict[str, dict[int, _Queued]] = {}
        self._tenants: dict[Lane, Counter[str]] = {lane: Counter() for lane in lane_weights}  # units queued
        self._deadlines: list[tuple[float, str]] = []  # a heap; an entry that is not the job's `_due` is stale
        self._due: dict[str, float] = {}  # the deadline of each job that is queued or held
        self._held: set[str] = set()
        self._number = 0
        self._current: str | None = None  # the group that was chosen last
        self._began = 0.0  # when a group was last chosen that was not, if it was its turn or it passed as the first
        self._passed = 0  # units that went since, while it was another's turn
        self.counts: Counter[str] = Counter()

    def __len__(self) -> int:
        """Units that are queued."""
        return sum(len(group.entries) for group in self._groups.values())

    def add(self, unit: Unit, now: float) -> None:
        """Queue a unit. Each (job, n) once at a time."""
        queued = self._jobs.setdefault(unit.job, {})
        assert unit.n not in queued, f"picture {unit.n} of job {unit.job} is queued already"
        self._begin(unit)
        self._number += 1
        entry = _Queued(unit.lane, unit.tenant, unit.deadline, self._number, unit, now)
        queued[unit.n] = entry
        self.counts["added"] += 1
        self._held.discard(unit.job)
        self._expect(unit.job, unit.deadline)
        group = self._groups.get(unit.group)
        if group is None:
            group = self._groups[unit.group] = _Group(unit, self._shares)
        group.entries[entry.number] = entry
        group.queue.add(entry)
        if group.ready:
            self._make_ready(group, entry)
        else:
            self._look_at(group, now)

    def hold(self, job: str, deadline: float) -> None:
        """Keep a job that cannot run now. It has no slot and lets others pass; `expired` gives it back in time."""
        self.discard(job)
        self._held.add(job)
        self._expect(job, deadline)

    def take(self, now: float, room: Room) -> Chosen | None:
        """What goes next into the room, or None: nothing may, or nothing fits. Call `expired` before.

        It books the units' expected seconds; `served` corrects that.
        """
        self._promote(now)
        entry = self._ready.first()
        if entry is None:
            return None
        turn = self._groups[entry.unit.group]
        group = self._choose(turn, entry.unit.model, now, room)
        size = 0 if group is None else min(room.limit, group.bucket if room.kind is None else room.slots)
        if group is None or size < 1:
            return None
        self._shares.turn(entry.lane, entry.tenant)
        waited = now - group.first_arrival()
        units = self._take_from(group, size, now)
        # Groups that pass one after the other share what the one they pass grants: it would wait for ever else.
        if group.key != self._current and (group is turn or not self._passed):
            self._began = now
        self._current = group.key
        self._passed = 0 if group is turn else self._passed + len(units)
        return Chosen(units, waited)

    def served(self, tenant: str, lane: Lane, gpu_seconds: float) -> None:
        """What units that were taken cost beyond what was expected of them; below 0: less."""
        self._shares.book(lane, tenant, gpu_seconds)

    def next_batch(self, now: float) -> float | None:
        """When `take` may give something if nothing is added meanwhile, not below `now`; None: never."""
        if len(self._ready):
            return now
        self._drop_stale_timers()
        return max(now, self._timers[0][0]) if self._timers else None

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
        grouped = sorted(number for group in self._groups.values() for number in group.entries)
        queued = sorted(entry.number for units in self._jobs.values() for entry in units.values())
        assert grouped == queued, "a unit is lost or stands twice"
        assert all(group.entries for group in self._groups.values()), "an empty group was kept"
        ready = sum(len(group.entries) for group in self._groups.values() if group.ready)
        assert ready == len(self._ready), "what may go stands elsewhere"
        assert not self._held & self._jobs.keys(), "a job is held and queued"
        assert self._due.keys() == self._held | self._jobs.keys(), "a job waits without a deadline"
        waiting = sum(sum(tenants.values()) for tenants in self._tenants.values())
        assert waiting == len(self), "a tenant's units were miscounted"

    # The choice.

    def _choose(self, turn: _Group, model: str, now: float, room: Room) -> _Group | None:
        fits = room.idle or not turn.alone
        if room.kind is not None and turn.key == room.kind:
            return turn
        if self._patience_over(turn, now):
            return turn if room.kind is None and fits else None
        if room.kind is not None:
            running = self._groups.get(room.kind)
            return running if running is not None and running.ready else None
        if fits and (model in room.models or not room.models):
            return turn
        queues = [self._models[each] for each in room.models if each in self._models]
        firsts = [(queue.turn(entry), entry) for queue in queues if (entry := queue.first()) is not None]
        if firsts:
            entry = min(firsts, key=lambda pair: pair[0])[1]
            return self._groups[entry.unit.group]
        return turn if fits else None

    def _patience_over(self, turn: _Group, now: float) -> bool:
        """Others have passed for long enough. What has only just begun may run for as long."""
        since = max(turn.first_arrival(), self._began)
        return self._passed >= self._look_ahead or now - since >= self._affinity_wait

    def _take_from(self, group: _Group, size: int, now: float) -> tuple[Unit, ...]:
        units: list[Unit] = []
        while len(units) < size and (entry := group.queue.first()) is not None:
            turn = self._ready.first()
            assert turn is not None, "what is chosen may go"
            if turn.lane == entry.lane and turn.unit.group == group.key:
                self._shares.book(entry.lane, entry.tenant, entry.unit.seconds)
            else:
                self._shares.book_passing(entry.lane, entry.tenant, entry.unit.seconds, turn.lane)
            self._remove(entry)
            units.append(entry.unit)
        self.counts["taken"] += len(units)
        if group.entries and group.ready and group.goes_at(self._wait) > now:  # fewer than a bucket are left
            group.ready = False
            for entry in group.entries.values():
                self._unready(entry)
            self._look_at(group, now)
        return tuple(units)

    # Where units stand.

    def _begin(self, unit: Unit) -> None:
        """A lane or tenant that comes back starts at the level of those who waited."""
        tenants = self._tenants[unit.lane]
        if not tenants:
            self._shares.begin(unit.lane, self._ready.least_lane())
        if unit.tenant not in tenants:
            self._shares.begin_tenant(unit.lane, unit.tenant, self._ready.least_tenant(unit.lane))
            self._shares.forget_idle(unit.lane, tenants)
        tenants[unit.tenant] += 1

    def _look_at(self, group: _Group, now: float) -> None:
        at = group.goes_at(self._wait)
        if at > now:
            heapq.heappush(self._timers, (at, group.key))
            return
        group.ready = True
        for entry in group.entries.values():
            self._make_ready(group, entry)

    def _promote(self, now: float) -> None:
        self._drop_stale_timers()
        while self._timers and self._timers[0][0] <= now:
            self._look_at(self._groups[heapq.heappop(self._timers)[1]], now)
            self._drop_stale_timers()

    def _drop_stale_timers(self) -> None:
        """A timer counts while its group waits for exactly it."""
        while self._timers:
            at, key = self._timers[0]
            group = self._groups.get(key)
            if group is not None and not group.ready and group.goes_at(self._wait) == at:
                return
            heapq.heappop(self._timers)
            if group is not None and not group.ready and group.goes_at(self._wait) > at:
                heapq.heappush(self._timers, (group.goes_at(self._wait), key))  # its first unit has left

    def _make_ready(self, group: _Group, entry: _Queued) -> None:
        self._ready.add(entry)
        if not group.alone:
            model = self._models.get(entry.unit.model)
            if model is None:
                model = self._models[entry.unit.model] = FairQueue(self._shares)
            model.add(entry)

    def _unready(self, entry: _Queued) -> None:
        self._ready.remove(entry)
        model = self._models.get(entry.unit.model)
        if model is not None:
            model.remove(entry)
            if not len(model):
                del self._models[entry.unit.model]

    def _remove(self, entry: _Queued) -> None:
        unit = entry.unit
        units = self._jobs[unit.job]
        del units[unit.n]
        if not units:
            del self._jobs[unit.job], self._due[unit.job]
        self._unready(entry)
        group = self._groups[unit.group]
        del group.entries[entry.number]
        group.queue.remove(entry)
        if not group.entries:
            del self._groups[unit.group]
        tenants = self._tenants[unit.lane]
        tenants[unit.tenant] -= 1
        if not tenants[unit.tenant]:
            del tenants[unit.tenant]

    def _leave(self, job: str) -> int:
        if job in self._held:
            self._held.remove(job)
            del self._due[job]
        entries = list(self._jobs.get(job, {}).values())
        for entry in entries:
            self._remove(entry)
        return len(entries)

    # Deadlines.

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
