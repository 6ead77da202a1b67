"""A pool of GPU consumers on a virtual clock: requests fall to partitions, partitions to consumers, time to models.

Whole seconds of a device are what counts here, so a claim and a settle take no time. Everything that decides is given
in: who routes, who chooses what runs next, and who says how many consumers there should be. Partitions go to consumers
by the product's own assignor, and offsets are committed as its ledger does: up to the first that is not done.

A consumer is paid for from the moment it is asked for, joins its group when it has loaded, and leaves it when what it
ran has ended: its partitions wait for that, and for the rebalance.
"""

import heapq
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from gpu_consumer.assignor import Holding, plan
from infra.planner.request import Request
from schemas.request import LANES, Lane

PERIOD_SECONDS = 60.0  # between two tables of places
_SOON = 1e-6  # seconds: what waits for company is asked again no sooner


class Card(Protocol):
    """`swap`: seconds that another model than before takes."""

    @property
    def swap(self) -> float: ...

    def seconds(self, batch: Sequence[Request]) -> float:
        """From the start of a batch until all of it has ended."""


class Queue(Protocol):
    """What waits at one consumer."""

    def __len__(self) -> int: ...

    def add(self, request: Request, now: float) -> None: ...

    def take(self, now: float, loaded: tuple[str, ...]) -> Sequence[Request]:
        """What runs next, together; nothing: ask again at `next_at`."""

    def next_at(self, now: float) -> float | None: ...

    def expired(self, now: float) -> list[Request]:
        """What nobody waits for any more."""

    def ran(self, request: Request, seconds: float) -> None:
        """It has ended, so long after its start."""

    def give_back(self, lost: Callable[[Request], bool]) -> list[Request]:
        """What waits and is `lost`, for its partition has another owner."""


class Router(Protocol):
    def partition(self, request: Request) -> int: ...

    def tick(self, now: float) -> None:
        """Called every `period` seconds."""


class Scaler(Protocol):
    def look(self, now: float, pool: "Pool") -> float:
        """May call `pool.scale`. Returns when it looks again; it is first asked at 0."""


class Watcher(Protocol):
    """Is told what happens. `owner`: the consumer whose partition a request fell to, where there is one."""

    def arrived(self, request: Request, owner: str | None) -> None: ...

    def began(self, now: float, batch: Sequence[Request], swap: float) -> None: ...

    def ended(self, now: float, request: Request, *, made: bool) -> None:
        """`made`: there is a picture, in time or not; else it expired."""


@dataclass(slots=True, eq=False)
class Consumer:
    name: str
    queue: Queue
    asked_at: float
    ready: bool = False
    leaves: bool = False
    holding: Holding = field(default_factory=Holding)
    loaded: tuple[str, ...] = ()  # models, the one used last at the end
    batch: Sequence[Request] = ()
    began: float = 0.0
    busy_until: float = 0.0
    busy_seconds: float = 0.0  # of batches that have ended

    def busy(self, now: float) -> float:
        """Seconds in which the device had something to do, up to now."""
        return self.busy_seconds + (min(now, self.busy_until) - self.began if self.batch else 0.0)


@dataclass(slots=True)
class _Log:
    """Of one partition index: what was not fetched yet, and the offsets of each lane."""

    waiting: deque[Request] = field(default_factory=deque)
    ends: dict[Lane, int] = field(default_factory=lambda: dict.fromkeys(LANES, 0))
    marks: dict[Lane, int] = field(default_factory=lambda: dict.fromkeys(LANES, 0))
    done: dict[Lane, set[int]] = field(default_factory=lambda: {lane: set() for lane in LANES})

    def append(self, lane: Lane) -> int:
        offset = self.ends[lane]
        self.ends[lane] += 1
        return offset

    def finish(self, lane: Lane, offset: int) -> int:
        """By how much the committed offset moves."""
        done, began = self.done[lane], self.marks[lane]
        done.add(offset)
        while (mark := self.marks[lane]) in done:
            done.remove(mark)
            self.marks[lane] += 1
        return self.marks[lane] - began


class Pool:
    def __init__(
        self,
        card: Card,
        partitions: int,
        router: Router,
        make_queue: Callable[[], Queue],
        *,
        backlog_max: int,
        watcher: Watcher,
        load_seconds: float = 0.0,
        rebalance_seconds: float = 0.0,
        models_held: int = 1,
        period: float = PERIOD_SECONDS,
    ) -> None:
        """`backlog_max`: requests that a consumer has fetched and not begun. `models_held`: on a card; those
        not used for longest leave. `period`: seconds between two tables of places."""
        assert models_held >= 1
        self.partitions = partitions
        self.load_seconds = load_seconds
        self.consumers: dict[str, Consumer] = {}
        self.waiting: dict[int, Request] = {}  # by number: appended and not begun
        self.paid_seconds = 0.0  # of consumers that are gone
        self.busy_seconds = 0.0  # the same
        self.rebalances = 0
        self.lags: dict[Lane, int] = dict.fromkeys(LANES, 0)  # as the group's committed offsets have them
        self._card = card
        self._router = router
        self._make_queue = make_queue
        self._backlog_max = backlog_max
        self._watcher = watcher
        self._rebalance_seconds = rebalance_seconds
        self._models_held = models_held
        self._period = period
        self._logs = [_Log() for _ in range(partitions)]
        self._owner: dict[int, Consumer] = {}
        self._free_at = [0.0] * partitions  # when a partition that has moved is its new owner's
        self._place: dict[int, tuple[int, int]] = {}  # of each request that is not done: partition and offset
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._order = 0
        self._generation = 0
        self._born = 0
        self._size = 0
        self._due: list[tuple[float, int]] = []  # a heap: deadline and number of what may still wait then

    # What a scaler sees and says.

    @property
    def size(self) -> int:
        """Consumers that are to stay, loading ones too: the replicas that a deployment says."""
        return self._size

    def staying(self) -> list[Consumer]:
        return [each for each in self.consumers.values() if not each.leaves]

    def scale(self, size: int, now: float) -> None:
        """Out at once. In: those that load first, then those with the least to finish, as pod-deletion-cost has it."""
        self._size, staying = size, self.staying()
        for _ in range(size - len(staying)):
            self._born += 1
            consumer = Consumer(f"consumer-{self._born}", self._make_queue(), now)
            self.consumers[consumer.name] = consumer
        if size > len(staying):
            self._at(now + self.load_seconds, self._join)
        elif size < len(staying):
            left = [each.busy_until if each.batch else now for each in staying]
            order = sorted(
                zip(staying, left, strict=True), key=lambda pair: (pair[0].ready, pair[1], -pair[0].asked_at)
            )
            leaving = [each for each, _ in order[: len(staying) - size]]
            for each in leaving:
                each.leaves = True
                if not each.batch:
                    self._gone(each, now)
            if any(each.ready and not each.batch for each in leaving):
                self._rebalance(now)

    def expire(self, now: float) -> None:
        """Let what is over leave the queues. A pool does it by itself before each choice."""
        while self._due and self._due[0][0] <= now:
            _, number = heapq.heappop(self._due)
            if number in self.waiting and (owner := self._owner.get(self._place[number][0])) is not None:
                self._drop_expired(owner, now)

    # The clock.

    def run(self, arrivals: Iterable[Request], until: float, scaler: Scaler) -> None:
        """What is not done at the end is in `waiting`, or runs. Consumers are paid until the end."""
        self._look(0.0, scaler)
        self._at(self._period, self._tick)
        coming: Iterator[Request] = iter(arrivals)
        following = next(coming, None)
        while True:
            moment = self._events[0][0] if self._events else until
            if following is not None and following.arrival < min(moment, until):
                self._arrive(following)
                following = next(coming, None)
            elif self._events and moment < until:
                now, _, event = heapq.heappop(self._events)
                event(now)
            else:
                break
        self.expire(until)
        for consumer in self.consumers.values():
            self.paid_seconds += until - consumer.asked_at
            self.busy_seconds += consumer.busy(until)

    def _at(self, moment: float, event: Callable[[float], None]) -> None:
        self._order += 1
        heapq.heappush(self._events, (moment, self._order, event))

    def _look(self, now: float, scaler: Scaler) -> None:
        self._at(scaler.look(now, self), lambda at: self._look(at, scaler))

    def _tick(self, now: float) -> None:
        self._router.tick(now)
        self._at(now + self._period, self._tick)

    # Requests.

    def _arrive(self, request: Request) -> None:
        index = self._router.partition(request)
        log = self._logs[index]
        self._place[request.number] = (index, log.append(request.lane))
        self.lags[request.lane] += 1
        self.waiting[request.number] = request
        heapq.heappush(self._due, (request.deadline, request.number))
        owner = self._owner.get(index)
        self._watcher.arrived(request, None if owner is None else owner.name)
        log.waiting.append(request)
        if owner is not None:
            self._fetch(owner, request.arrival, (index,))
            self._serve(owner, request.arrival)

    def _serve(self, consumer: Consumer, now: float) -> None:
        if consumer.batch or consumer.leaves or not consumer.ready:
            return
        self._drop_expired(consumer, now)
        batch = consumer.queue.take(now, consumer.loaded)
        if not batch:
            if (again := consumer.queue.next_at(now)) is not None:
                self._at(max(again, now + _SOON), lambda at: self._serve(consumer, at))
            return
        model = batch[0].config.model_key
        swap = 0.0 if model in consumer.loaded else self._card.swap
        kept = tuple(each for each in consumer.loaded if each != model)
        consumer.loaded = (*kept, model)[-self._models_held :]
        consumer.batch, consumer.began = batch, now
        # Who is late leaves at the next step; nothing goes on for nobody.
        last = max(now, *(each.deadline for each in batch))
        consumer.busy_until = min(now + swap + self._card.seconds(batch), last)
        for request in batch:
            del self.waiting[request.number]
        self._watcher.began(now, batch, swap)
        self._at(consumer.busy_until, lambda at: self._end(consumer, at, now + swap))
        self._fetch(consumer, now)

    def _end(self, consumer: Consumer, now: float, began: float) -> None:
        batch, consumer.batch = consumer.batch, ()
        consumer.busy_seconds += now - consumer.began
        full = self._card.seconds(batch)
        for request in batch:
            made = now <= request.deadline and now - began >= full - _SOON
            if made:
                consumer.queue.ran(request, full)
            self._finish(request, now, made=made)
        if consumer.leaves:
            self._gone(consumer, now)
            self._rebalance(now)
        else:
            self._serve(consumer, now)

    def _finish(self, request: Request, now: float, *, made: bool) -> None:
        index, offset = self._place.pop(request.number)
        self.lags[request.lane] -= self._logs[index].finish(request.lane, offset)
        self._watcher.ended(now, request, made=made)

    def _drop_expired(self, consumer: Consumer, now: float) -> None:
        expired = consumer.queue.expired(now)
        for request in expired:
            del self.waiting[request.number]
            self._finish(request, now, made=False)
        if expired:
            self._fetch(consumer, now)

    def _fetch(self, consumer: Consumer, now: float, indexes: Sequence[int] | None = None) -> None:
        """From its partitions in turns, up to its bound, in the order of each log."""
        if consumer.leaves or len(consumer.queue) >= self._backlog_max:
            return
        mine = consumer.holding.indexes if indexes is None else indexes
        logs = [log for index in mine if (log := self._logs[index].waiting) and self._free_at[index] <= now]
        while logs and len(consumer.queue) < self._backlog_max:
            for log in logs:
                request = log.popleft()
                consumer.queue.add(request, now)
                if request.deadline <= now:
                    heapq.heappush(self._due, (request.deadline, request.number))
            logs = [log for log in logs if log]

    # The group.

    def _join(self, now: float) -> None:
        for consumer in self.consumers.values():
            if not consumer.ready and now - consumer.asked_at >= self.load_seconds - _SOON:
                consumer.ready = True
        self._rebalance(now)

    def _gone(self, consumer: Consumer, now: float) -> None:
        del self.consumers[consumer.name]
        self.paid_seconds += now - consumer.asked_at
        self.busy_seconds += consumer.busy_seconds
        self._give_back(consumer, range(self.partitions))

    def _give_back(self, consumer: Consumer, lost: Collection[int]) -> None:
        """To the logs, in the order of arrival."""
        back = consumer.queue.give_back(lambda request: self._place[request.number][0] in lost)
        for request in sorted(back, key=lambda each: each.number, reverse=True):
            self._logs[self._place[request.number][0]].waiting.appendleft(request)

    def _rebalance(self, now: float) -> None:
        """Who joined or left changes who owns what: what moves waits for its new owner."""
        members = {name: each for name, each in self.consumers.items() if each.ready}
        self.rebalances += 1
        self._generation += 1
        holdings = {name: each.holding for name, each in members.items()}
        planned = plan(range(self.partitions), holdings) if members else {}
        owners = {index: members[name] for name, indexes in planned.items() for index in indexes}
        free_at = now + self._rebalance_seconds
        for index in range(self.partitions):
            if owners.get(index) is not self._owner.get(index):
                self._free_at[index] = free_at
        self._owner = owners
        for name, consumer in members.items():
            indexes = tuple(planned[name])
            if lost := set(consumer.holding.indexes).difference(indexes):
                self._give_back(consumer, lost)
            consumer.holding = Holding(indexes, self._generation)
        self._at(free_at, self._go_on)

    def _go_on(self, now: float) -> None:
        for consumer in list(self.consumers.values()):
            if consumer.ready:
                self._fetch(consumer, now)
                self._serve(consumer, now)
