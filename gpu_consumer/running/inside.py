"""What the engine has been given and has not ended, and how much more it should get. Pure."""

import heapq
from collections import Counter
from dataclasses import dataclass

from gpu_consumer.backlog import Job
from gpu_consumer.engine.protocol import Pulse
from gpu_consumer.scheduling.expected import Expected
from gpu_consumer.scheduling.scheduler import Room, Unit

_LEFT_MIN = 0.1  # of what was expected: it was a guess, and the picture is not drawn yet


@dataclass(slots=True, eq=False)
class Flight:
    """A picture on its way: claimed, then sent, then in a slot until it is drawn, and here until it has ended."""

    unit: Unit
    job: Job
    seconds: float = 0.0  # of the GPU, as expected when it was claimed
    sent: bool = False
    joined_at: float | None = None
    drawn: bool = False
    drawn_at: float | None = None
    leaving: bool = False

    @property
    def key(self) -> str:
        return f"{self.unit.job}/{self.unit.n}"


class Inside:
    """In the order in which they were chosen, which is the order in which they join.

    `ahead_slots`: how many are sent beyond the slots, so that one that becomes free is not idle until we hear of it; 0:
    a quarter of the bucket. Where pictures take less than a claim does, so many more that they last `claim_seconds`,
    but no more than `ahead_batches_max` buckets.
    """

    def __init__(self, expected: Expected, *, ahead_slots: int, claim_seconds: float, ahead_batches_max: int) -> None:
        self._expected = expected
        self._ahead_slots = ahead_slots
        self._claim_seconds = claim_seconds
        self._ahead_batches_max = ahead_batches_max
        self._flights: dict[str, Flight] = {}
        self._holding: dict[str, Flight] = {}  # those that have a slot, or will need one
        self._kinds: Counter[str] = Counter()  # of these
        self._seconds = 0.0  # expected of these
        self._deadlines: list[tuple[float, str]] = []  # a heap, with stale entries
        self.pulse = Pulse("nothing")

    def __len__(self) -> int:
        return len(self._flights)

    def get(self, key: str) -> Flight | None:
        return self._flights.get(key)

    def flights(self) -> list[Flight]:
        return list(self._flights.values())

    def of(self, job: Job) -> list[Flight]:
        keys = (f"{job.id}/{n}" for n in range(job.images))
        return [flight for key in keys if (flight := self._flights.get(key)) is not None and flight.job is job]

    def holds_all(self, job: Job) -> bool:
        """What is not made of it is on its way here."""
        return len(job.pictures) + len(self.of(job)) == job.images

    def drawing(self, job: Job) -> tuple[int, ...]:
        """Those of its pictures that have a slot."""
        return tuple(flight.unit.n for flight in self.of(job) if flight.joined_at is not None and not flight.drawn)

    def steps_made(self, job: Job) -> int:
        """Of all its pictures, as far as the engine has said; one that is begun again may have made more than once."""
        each = job.item.config.steps
        made = (each if flight.drawn else min(each, self.pulse.made.get(flight.key, 0)) for flight in self.of(job))
        return len(job.pictures) * each + sum(made)

    @property
    def seconds(self) -> float:
        """GPU-seconds expected until all of it is drawn."""
        return max(0.0, self._seconds)

    def left(self, now: float) -> float:
        """GPU-seconds until what was given to the engine is drawn, less what was done of it. Those that have a slot
        share the device, so each has come as far as its part of the time since it joined; some is left of each."""
        company = sum(each.joined_at is not None for each in self._holding.values())
        return sum(
            each.seconds
            if each.joined_at is None
            else max(_LEFT_MIN * each.seconds, each.seconds - (now - each.joined_at) / company)
            for each in self._holding.values()
        )

    def add(self, flight: Flight) -> None:
        assert flight.key not in self._flights, f"{flight.key} is in the engine already"
        self._flights[flight.key] = self._holding[flight.key] = flight
        self._kinds[flight.unit.kind] += 1
        flight.seconds = self._expected.now(flight.unit.config_hash, flight.unit.seconds)
        self._seconds += flight.seconds
        if len(self._deadlines) > 2 * len(self._flights) + 64:  # pictures mostly end long before their deadlines
            self._deadlines = [(each.unit.deadline, each.key) for each in self._flights.values() if not each.leaving]
            heapq.heapify(self._deadlines)
        else:
            heapq.heappush(self._deadlines, (flight.unit.deadline, flight.key))

    def drawn(self, flight: Flight) -> None:
        flight.drawn = True
        if self._holding.pop(flight.key, None) is not None:
            self._kinds[flight.unit.kind] -= 1
            self._seconds = self._seconds - flight.seconds if self._holding else 0.0

    def remove(self, flight: Flight) -> None:
        self.drawn(flight)
        del self._flights[flight.key]

    def clear(self) -> list[Flight]:
        """All of it is lost."""
        flights = self.flights()
        for flight in flights:
            self.remove(flight)
        self.pulse = Pulse("nothing")
        return flights

    def room(self, limit: int) -> Room | None:
        """What to ask the scheduler for. None: nothing more now. `limit`: of pictures, for other reasons."""
        models = self.pulse.models
        tail = next(reversed(self._holding.values()), None)
        first = next(iter(self._flights.values()), None)
        if limit < 1 or (first is not None and first.unit.alone):
            return None
        if tail is None:
            return Room(models=models, idle=not self._flights, limit=limit)
        if not tail.unit.joins:
            return self._next_batch(tail.unit, limit)
        free = self._slots(tail.unit) + self._ahead(tail.unit) - self._kinds[tail.unit.kind]
        return Room(tail.unit.kind, free, models, idle=False, limit=limit) if free > 0 else None

    def room_after(self, limit: int) -> Room | None:
        """Where nothing more of the kind at the end may join: room for what runs when that has drained."""
        tail = next(reversed(self._holding.values()), None)
        if tail is None or limit < 1 or tail.unit.alone:
            return None
        if not tail.unit.joins or len(self._holding) > self._ahead(tail.unit):
            return None
        return Room(models=self.pulse.models, idle=False, limit=limit)

    def _next_batch(self, last: Unit, limit: int) -> Room | None:
        """One that runs whole is waited for, unless it is over before another could be claimed, or has no need to wait:
        an engine of several processes has the slots of several batches.
        """
        if self._kinds[last.kind] + last.bucket <= self._slots(last):
            return Room(models=self.pulse.models, idle=False, limit=limit)
        most = last.bucket * self._ahead_batches_max
        if self.seconds > self._claim_seconds or len(self._holding) >= most:
            return None
        return Room(models=self.pulse.models, idle=False, limit=limit)

    def _slots(self, unit: Unit) -> int:
        return self.pulse.slots if self.pulse.kind == unit.kind and self.pulse.slots else unit.bucket

    def _ahead(self, unit: Unit) -> int:
        seconds = self._expected.now(unit.config_hash, unit.seconds)
        quick = self._claim_seconds / seconds if seconds > 0 else float("inf")
        ahead = max(self._ahead_slots or max(1, unit.bucket // 4), quick)
        return int(min(ahead, unit.bucket * self._ahead_batches_max))

    # Deadlines.

    def next_deadline(self) -> float | None:
        """Of those that were not told to leave."""
        heap = self._deadlines
        while heap and ((flight := self._flights.get(heap[0][1])) is None or flight.leaving):
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def late(self, now: float) -> list[Job]:
        """The jobs whose deadline is over, each once; told once."""
        jobs: dict[Job, None] = {}
        while (due := self.next_deadline()) is not None and due <= now:
            jobs[self._flights[heapq.heappop(self._deadlines)[1]].job] = None
        return list(jobs)
