"""A GPU consumer of a virtual pool: what waits here, what was chosen, what has a slot.

The product's scheduler says what runs next, and its book of what is in the engine how much more may be chosen. Whole
seconds of a device are what counts here, so a claim and a settle take no time.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import cast

from gpu_consumer.assignor import Holding
from gpu_consumer.backlog import Job
from gpu_consumer.engine.protocol import Pulse
from gpu_consumer.running.inside import Flight, Inside
from gpu_consumer.scheduling.expected import Expected
from gpu_consumer.scheduling.scheduler import Chosen, Unit
from infra.planner.device import Card, Device, Ended
from infra.planner.given import Queue, Watcher
from infra.planner.house import House
from infra.planner.request import Request

_LEFT_MIN = 0.1  # of what a job costs, while it runs: as infra/scaler/book.py
_NO_JOB = cast(Job, None)  # a book of flights looks at jobs only where it is asked about one


@dataclass(slots=True)
class _Held:
    """A request that is here: pictures that are queued, those that were chosen and have not ended, and how many are
    still to be made."""

    request: Request
    queued: int
    left: int
    flights: list[Flight] = field(default_factory=list)
    claimed_at: float = 0.0
    began: bool = False

    @property
    def certain(self) -> bool:
        """All that it lacks has a slot."""
        return not self.queued and all(each.joined_at is not None for each in self.flights)


class Consumer:
    """`claimed` hears of each request of which something is chosen for the first time; `done` of its end, and whether
    there are its pictures."""

    def __init__(
        self, name: str, asked_at: float, queue: Queue, card: Card, house: House, watcher: Watcher, *,
        claimed: Callable[[Request], None], done: Callable[[Request, float, bool], None],
    ) -> None:  # fmt: skip
        self.name = name
        self.asked_at = asked_at
        self.ready = False
        self.leaves = False
        self.holding = Holding()
        self.behind = False  # its logs hold more than it may fetch
        self.wakes_at: float | None = None  # for the pool, which wakes it
        self._queue = queue
        self._house = house
        self._watcher = watcher
        self._claimed = claimed
        self._done = done
        self._expected = Expected()
        self._inside = Inside(
            self._expected, ahead_slots=house.ahead_slots, claim_seconds=house.claim_seconds,
            ahead_batches_max=house.ahead_batches_max,
        )  # fmt: skip
        self._device = Device(card, house.models_held)
        self._sent: deque[list[Flight]] = deque()  # without a slot: what was chosen together, in the order of joining
        self._held: dict[str, _Held] = {}  # by job
        self._running: dict[str, _Held] = {}  # of these, those of which something was chosen
        self._pictures = 0  # that are queued
        self._engaged = False  # nothing more may be chosen until something has ended
        self._waits = False  # there is room, and what is queued waits for company
        self._swap = 0.0  # seconds of loading before whoever joins next

    @property
    def full(self) -> bool:
        return len(self._held) - len(self._running) >= self._house.backlog_max

    @property
    def engaged(self) -> bool:
        """It would choose nothing of what is added now: it goes on when something of it has ended."""
        return self._engaged

    @property
    def works(self) -> bool:
        """Something was chosen and has not ended."""
        return bool(self._running)

    @property
    def running(self) -> Iterable[Request]:
        """What was chosen, in whole or in part, and has not ended."""
        return (each.request for each in self._running.values())

    def busy(self, now: float) -> float:
        """Seconds in which the device had something to do, up to now."""
        return self._device.busy(now)

    def left(self, now: float) -> list[float]:
        """GPU-seconds of each request that runs, as the scaler reckons them by its mark."""
        company = len(self._running)
        return [
            max(_LEFT_MIN * each.request.seconds, each.request.seconds - (now - each.claimed_at) / company)
            for each in self._running.values()
        ]

    def deletion_cost(self, now: float) -> float:
        """GPU-seconds, as its pod says them."""
        return self._inside.left(now)

    def add(self, request: Request, now: float) -> None:
        config, job = request.config, str(request.number)
        self._held[job] = _Held(request, request.images, request.images)
        self._pictures += request.images
        seconds, run_seconds = self._expected.seconds(config), self._expected.run_seconds(config.config_hash)
        for n in range(request.images):
            unit = Unit(
                job, n, request.tenant, request.lane, config.config_hash, config.kind, config.model_key, config.bucket,
                joins=config.batching == "step", deadline=request.deadline, seconds=seconds, run_seconds=run_seconds,
            )  # fmt: skip
            self._queue.add(unit, now)

    def go_on(self, now: float) -> float | None:
        """Take in what has ended, choose what there is room for, let join who may. Returns when to ask again if nothing
        is added meanwhile."""
        for ended in self._device.ended(now):
            self._take_in(ended, now)
        self.expire(now)
        if self.ready and not self.leaves and not self._engaged:
            self._choose(now)
        self._join(now)
        return self._next(now)

    def expire(self, now: float) -> None:
        """Let go what is over and has no slot."""
        for job in self._queue.expired(now):
            self._drop(self._held[job], now)
        if self._sent:
            late = [each.unit.job for batch in self._sent for each in batch if each.unit.deadline <= now]
            for job in late:
                if job in self._held:
                    self._drop(self._held[job], now)

    def give_back(self, lost: Callable[[Request], bool], now: float) -> list[Request]:
        """What is `lost`, for its partition goes to another owner, in the order of arrival. What is certain to be made
        stays."""
        back = [each for each in self._held.values() if lost(each.request) and not each.certain]
        for each in back:
            self._forget(each, now)
        return sorted((each.request for each in back), key=lambda request: request.number)

    # The choice.

    def _choose(self, now: float) -> None:
        inside, queue, self._waits = self._inside, self._queue, False
        while self._pictures:
            limit = self._house.settling_max - len(inside)
            room = inside.room(limit)
            chosen = None if room is None else queue.take(now, room)
            after = inside.room_after(limit) if chosen is None else None
            if after is not None:
                chosen = queue.take(now, after)
            if chosen is None:
                self._waits = room is not None
                self._engaged = room is None and after is None
                return
            self._take(chosen, now)

    def _take(self, chosen: Chosen, now: float) -> None:
        flights = [Flight(unit, _NO_JOB) for unit in chosen.units]
        self._pictures -= len(flights)
        for flight in flights:
            job = flight.unit.job
            held = self._held[job]
            held.queued -= 1
            held.flights.append(flight)
            self._inside.add(flight)
            if job not in self._running:
                held.claimed_at = now
                self._running[job] = held
                self._claimed(held.request)
        self._sent.append(flights)

    # The device.

    def _join(self, now: float) -> None:
        device = self._device
        while True:
            device.close(now)
            while self._sent and not self._sent[0]:
                self._sent.popleft()
            if not self._sent:
                return
            batch = self._sent[0]
            unit = batch[0].unit
            if device.kind is None:
                self._open(unit, now)
            if device.kind != unit.kind or not device.free or device.joins_at(now) > now:
                return
            count = 1 if unit.joins else len(batch)
            flights, batch[:count] = batch[:count], []
            self._begin(flights, now)

    def _open(self, unit: Unit, now: float) -> None:
        self._swap += self._device.open(unit, now)
        if self._inside.pulse.models != self._device.models:
            self._inside.pulse = Pulse("nothing", models=self._device.models)

    def _begin(self, flights: Sequence[Flight], now: float) -> None:
        held = [self._held[each.unit.job] for each in flights]
        begins = self._device.join(flights, [each.request for each in held], now)
        for flight in flights:
            flight.joined_at = begins
        begun = list(dict.fromkeys(each.request for each in held if not each.began))
        for each in held:
            each.began = True
        self._watcher.began(begins, begun, self._swap)
        self._swap = 0.0

    def _take_in(self, ended: Ended, now: float) -> None:
        flight = ended.flight
        held = self._held[flight.unit.job]
        self._book(ended)
        held.flights.remove(flight)
        if not ended.made:
            self._drop(held, now)
            return
        self._expected.ran(flight.unit.config_hash, ended.run_seconds)
        self._expected.learn(flight.unit.config_hash, ended.gpu_seconds)
        held.left -= 1
        if not held.left:
            self._remove(held)
            self._done(held.request, now, True)

    def _book(self, ended: Ended) -> None:
        unit = ended.flight.unit
        self._remove_flight(ended.flight)
        self._queue.served(unit.tenant, unit.lane, self._expected.cost(ended.gpu_seconds) - unit.seconds)

    # Ends.

    def _drop(self, held: _Held, now: float) -> None:
        self._forget(held, now)
        self._done(held.request, now, False)

    def _forget(self, held: _Held, now: float) -> None:
        """Nothing of it is here any more, wherever it was."""
        if held.queued:
            self._queue.discard(str(held.request.number))
            self._pictures -= held.queued
        for flight in held.flights:
            if flight.joined_at is not None:
                self._book(self._device.leave(flight, now))
                continue
            self._remove_flight(flight)
            self._queue.served(flight.unit.tenant, flight.unit.lane, -flight.unit.seconds)
            next(batch for batch in self._sent if flight in batch).remove(flight)
        self._remove(held)

    def _remove_flight(self, flight: Flight) -> None:
        self._inside.remove(flight)
        self._engaged = False

    def _remove(self, held: _Held) -> None:
        job = str(held.request.number)
        del self._held[job]
        self._running.pop(job, None)

    def _next(self, now: float) -> float | None:
        sent = self._sent
        at = self._device.next_at(now, sent[0][0].unit.kind if sent else None)
        if sent:
            at = _sooner(at, min(each.unit.deadline for batch in sent for each in batch))
        if self._waits and (again := self._queue.next_batch(now)) is not None and again > now:
            at = _sooner(at, again)
        return at


def _sooner(one: float | None, other: float) -> float:
    return other if one is None else min(one, other)
