"""Which pictures run next. Pure and synchronous: every call is given `now`, in seconds of one steady clock.

It is asked when there is room, so that what comes late still joins: wait for a slot, then choose. Turns go by lane
weight, then to the least-served tenant, then to the earliest deadline. Pictures of the kind that runs, or of a loaded
model, may pass the one whose turn it is: so many of them, and for so long; then nothing more joins until what runs has
drained, and the turn is kept. Pictures that run whole wait for company; the others do not, for it joins them later.

What cannot end before its deadline any more stands behind all that can: started in its turn it would make the next one
late as well, and in a burst all that follow. It goes where nothing else may, for what was measured may change.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count

from gpu_consumer.scheduling.deadlines import Deadlines
from gpu_consumer.scheduling.fairness import Shares
from gpu_consumer.scheduling.queues import Group, Queues, Unit
from schemas.request import LANE_WEIGHTS, Lane

__all__ = ["Chosen", "Room", "Scheduler", "Unit"]


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
        self._affinity_wait = affinity_wait_seconds
        self._look_ahead = look_ahead
        self._shares = Shares(lane_weights)
        numbers = count()
        self._queues = Queues(batch_wait_seconds, self._shares, numbers)
        self._late = Queues(batch_wait_seconds, self._shares, numbers)  # what cannot end in time any more
        self._deadlines = Deadlines()  # of the jobs that are queued or held
        self._starts = Deadlines()  # of those that are queued and not late
        self._held: set[str] = set()
        self._current: str | None = None  # the group that was chosen last
        self._began = 0.0  # when a group was last chosen that was not, if it was its turn or it passed as the first
        self._passed = 0  # units that went since, while it was another's turn
        self.counts: Counter[str] = Counter()

    def __len__(self) -> int:
        """Units that are queued."""
        return len(self._queues) + len(self._late)

    def add(self, unit: Unit, now: float) -> None:
        """Queue a unit. Each (job, n) once at a time."""
        self._queues.add(unit, now)
        self._held.discard(unit.job)
        self._deadlines.expect(unit.job, unit.deadline)
        self._starts.expect(unit.job, unit.starts_by)
        self.counts["added"] += 1

    def hold(self, job: str, deadline: float) -> None:
        """Keep a job that cannot run now. It has no slot and lets others pass; `expired` gives it back in time."""
        self.discard(job)
        self._held.add(job)
        self._deadlines.expect(job, deadline)

    def take(self, now: float, room: Room) -> Chosen | None:
        """What goes next into the room, or None: nothing may, or nothing fits. Call `expired` before.

        It books the units' expected seconds; `served` corrects that.
        """
        self._set_aside(now)
        for queues in (self._queues, self._late):
            queues.promote(now)
            if len(queues.ready):
                return self._choose(queues, now, room)
        return None

    def served(self, tenant: str, lane: Lane, gpu_seconds: float) -> None:
        """What units that were taken cost beyond what was expected of them; below 0: less."""
        self._shares.book(lane, tenant, gpu_seconds)

    def next_batch(self, now: float) -> float | None:
        """When `take` may give something if nothing is added meanwhile, not below `now`; None: never."""
        both = (self._queues, self._late)
        moments = [now if len(queues.ready) else queues.next_at() for queues in both]
        return min((max(now, at) for at in moments if at is not None), default=None)

    def next_deadline(self) -> float | None:
        """When `expired` will give something, if nothing changes meanwhile."""
        earliest = self._deadlines.next()
        return None if earliest is None else earliest[0]

    def expired(self, now: float) -> list[str]:
        """The jobs whose deadline is over while they wait. They leave with all units that are still queued."""
        jobs = []
        while (earliest := self._deadlines.next()) is not None and earliest[0] <= now:
            self.counts["expired"] += self._leave(earliest[1])
            jobs.append(earliest[1])
        return jobs

    def discard(self, job: str) -> int:
        """Forget a job; how many units left with it."""
        left = self._leave(job)
        self.counts["discarded"] += left
        return left

    def check_integrity(self) -> None:
        """Conservation, and one place for each unit. Asserts; for tests."""
        counts = self.counts
        assert counts["added"] == len(self) + counts["taken"] + counts["expired"] + counts["discarded"], counts
        self._queues.check()
        self._late.check()
        in_time, late = set(self._queues.jobs()), set(self._late.jobs())
        queued = in_time | late
        assert not in_time & late, "a job is late and in time"
        assert self._starts.due.keys() == in_time, "a job waits without a last moment to start"
        assert not self._held & queued, "a job is held and queued"
        assert self._deadlines.due.keys() == self._held | queued, "a job waits without a deadline"

    # The choice.

    def _set_aside(self, now: float) -> None:
        while (earliest := self._starts.next()) is not None and earliest[0] < now:
            self._starts.forget(earliest[1])
            self._queues.move(earliest[1], self._late, now)

    def _choose(self, queues: Queues, now: float, room: Room) -> Chosen | None:
        entry = queues.ready.first()
        assert entry is not None, "something may go"
        turn = queues.group_of(entry)
        group = self._group(queues, turn, entry.unit.model, now, room)
        size = 0 if group is None else min(room.limit, group.bucket if room.kind is None else room.slots)
        if group is None or size < 1:
            return None
        self._shares.turn(entry.lane, entry.tenant)
        waited = now - group.first_arrival()
        units = self._take_from(queues, group, size, now)
        # Groups that pass one after the other share what the one they pass grants: it would wait for ever else.
        if group.key != self._current and (group is turn or not self._passed):
            self._began = now
        self._current = group.key
        self._passed = 0 if group is turn else self._passed + len(units)
        return Chosen(units, waited)

    def _group(self, queues: Queues, turn: Group, model: str, now: float, room: Room) -> Group | None:
        fits = room.idle or not turn.alone
        if room.kind is not None and turn.key == room.kind:
            return turn
        if self._patience_over(turn, now):
            return turn if room.kind is None and fits else None
        if room.kind is not None:
            running = queues.group(room.kind)
            return running if running is not None and running.ready else None
        if fits and (model in room.models or not room.models):
            return turn
        loaded = [queue for each in room.models if (queue := queues.of_model(each)) is not None]
        firsts = [(queue.turn(entry), entry) for queue in loaded if (entry := queue.first()) is not None]
        if firsts:
            return queues.group_of(min(firsts, key=lambda pair: pair[0])[1])
        return turn if fits else None

    def _patience_over(self, turn: Group, now: float) -> bool:
        """Others have passed for long enough. What has only just begun may run for as long."""
        since = max(turn.first_arrival(), self._began)
        return self._passed >= self._look_ahead or now - since >= self._affinity_wait

    def _take_from(self, queues: Queues, group: Group, size: int, now: float) -> tuple[Unit, ...]:
        units: list[Unit] = []
        while len(units) < size and (entry := group.queue.first()) is not None:
            turn = queues.ready.first()
            assert turn is not None, "what is chosen may go"
            if turn.lane == entry.lane and turn.unit.group == group.key:
                self._shares.book(entry.lane, entry.tenant, entry.unit.seconds)
            else:
                self._shares.book_passing(entry.lane, entry.tenant, entry.unit.seconds, turn.lane)
            queues.remove(entry)
            if not queues.has(entry.unit.job):
                self._deadlines.forget(entry.unit.job)
                self._starts.forget(entry.unit.job)
            units.append(entry.unit)
        queues.was_taken_from(group, now)
        self.counts["taken"] += len(units)
        return tuple(units)

    def _leave(self, job: str) -> int:
        left = 0
        for queues in (self._queues, self._late):
            entries = queues.of_job(job)
            for entry in entries:
                queues.remove(entry)
            left += len(entries)
        self._held.discard(job)
        self._deadlines.forget(job)
        self._starts.forget(job)
        return left
