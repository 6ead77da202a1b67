"""The device of a virtual consumer: models that come and go, and one batch at a time that all of it is for.

What joins at a step has a slot of a padded batch, and for each of its steps the device works for all slots, whoever is
in them. So how long a picture runs is known when it joins, and nothing happens at the steps between. A batch that runs
whole starts and ends together. A picture is charged its part of each second that it shares, as its bill does.
"""

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from gpu_consumer.running.inside import Flight
from gpu_consumer.scheduling.scheduler import Unit
from infra.planner.request import Request

_STEPS_OFF = 1e-6  # of a step: so exactly is it known when one begins


class Card(Protocol):
    """`swap`: seconds that another model than those which are loaded takes."""

    @property
    def swap(self) -> float: ...

    def seconds(self, batch: Sequence[Request]) -> float:
        """From the start of a batch that runs whole until its end; of what joins at a step, from its slot on."""


@dataclass(frozen=True, slots=True)
class Priced:
    """A card on which a full bucket takes what its pictures cost together, and any other one as long: it is padded."""

    swap: float

    def seconds(self, batch: Sequence[Request]) -> float:
        config = batch[0].config
        return config.price.gpu_seconds * config.bucket


@dataclass(slots=True)
class _Slot:
    joined_at: float
    ends_at: float
    shared: float  # what a picture that is always here was charged by then


@dataclass(frozen=True, slots=True)
class Ended:
    """`gpu_seconds`: its part of the device; `made`: it has run to its end, in `run_seconds`."""

    flight: Flight
    gpu_seconds: float
    run_seconds: float
    made: bool


class Device:
    """For one consumer. Times are seconds of the virtual clock, and never fall."""

    def __init__(self, card: Card, models_held: int) -> None:
        self.models: tuple[str, ...] = ()  # the one used last at the end
        self.kind: str | None = None  # of what runs or is being loaded for; None: nothing
        self.joins = False
        self._card = card
        self._models_held = models_held
        self._bucket = 0
        self._slots: dict[Flight, _Slot] = {}
        self._ends: list[tuple[float, int, Flight]] = []  # a heap, with entries of those who have left
        self._order = 0
        self._opened_at = self._ready_at = 0.0
        self._step_at = self._step_seconds = 0.0  # when a step began, and how long one takes
        self._shared = self._shared_at = 0.0
        self._busy_seconds = 0.0  # of what is over

    @property
    def company(self) -> int:
        """How many have a slot."""
        return len(self._slots)

    @property
    def free(self) -> int:
        """Slots for more of the kind. What runs whole takes in nobody."""
        return self._bucket - len(self._slots) if self.joins or not self._slots else 0

    def busy(self, now: float) -> float:
        """Seconds in which there was something to do, up to now."""
        return self._busy_seconds + (0.0 if self.kind is None else now - self._opened_at)

    def open(self, unit: Unit, now: float) -> float:
        """A batch for the kind of `unit`. Nothing runs. Seconds until its model is loaded."""
        assert self.kind is None, "one kind at a time"
        swap = 0.0 if unit.model in self.models else self._card.swap
        if not self.models or self.models[-1] != unit.model:
            kept = tuple(each for each in self.models if each != unit.model)
            self.models = (*kept, unit.model)[-self._models_held :]
        self.kind, self.joins, self._bucket = unit.kind, unit.joins, unit.bucket
        self._opened_at, self._ready_at = now, now + swap
        self._step_at = self._shared_at = self._ready_at
        self._step_seconds = 0.0
        return swap

    def joins_at(self, now: float) -> float:
        """When somebody may be given a slot: as a step begins, or while a model is loaded, to begin when it is."""
        if not self._slots or now <= self._step_at:
            return now
        steps = math.ceil((now - self._step_at) / self._step_seconds - _STEPS_OFF)
        return max(now, self._step_at + steps * self._step_seconds)

    def join(self, flights: Sequence[Flight], requests: Sequence[Request], now: float) -> float:
        """Together, at a moment when they may. Who is late leaves: nothing goes on for nobody. When they begin."""
        assert len(flights) <= self.free, "no slot is free"
        begins, seconds = max(now, self._ready_at), self._card.seconds(requests)
        if not self._slots:
            self._step_seconds = seconds / requests[0].config.steps
        self._share(now)
        self._step_at = begins
        for flight in flights:
            self._slots[flight] = _Slot(begins, begins + seconds, self._shared)
            self._order += 1
            heapq.heappush(self._ends, (max(now, min(begins + seconds, flight.unit.deadline)), self._order, flight))
        return begins

    def next_at(self, now: float, waits: str | None) -> float | None:
        """When something changes: one ends or is late, or one of the kind `waits` may join."""
        if self._slots:
            at = self._next_end()
            joins = waits is not None and waits == self.kind and self.free
            return min(at, self.joins_at(now)) if joins and at is not None else at
        return None if self.kind is None else self._ready_at

    def ended(self, now: float) -> Iterator[Ended]:
        """Those that have, or are late. To be asked at the moment that `next_at` says; others may leave meanwhile."""
        while (at := self._next_end()) is not None and at <= now:
            yield self.leave(heapq.heappop(self._ends)[2], now)

    def leave(self, flight: Flight, now: float) -> Ended:
        """One that has a slot, at the end or before."""
        self._share(now)
        slot = self._slots.pop(flight)
        made = now >= slot.ends_at
        if made:
            self._step_at = now  # its last step is over, and so is everybody's
        return Ended(flight, self._shared - slot.shared, now - slot.joined_at, made)

    def close(self, now: float) -> None:
        """If nobody is in it and nobody loads."""
        if self.kind is not None and not self._slots and now >= self._ready_at:
            self._busy_seconds += now - self._opened_at
            self.kind = None

    def _share(self, now: float) -> None:
        if now > self._shared_at:
            if self._slots:
                self._shared += (now - self._shared_at) / len(self._slots)
            self._shared_at = now

    def _next_end(self) -> float | None:
        while self._ends and self._ends[0][2] not in self._slots:
            heapq.heappop(self._ends)
        return self._ends[0][0] if self._ends else None
