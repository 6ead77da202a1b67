"""A pool of GPU consumers on a virtual clock: requests fall to partitions, partitions to consumers, time to models.

Whole seconds of a device are what counts here, so a claim, a settle and a rebalance take no time, and a consumer that
leaves finishes what it runs. Everything that decides is given in: who routes, and who chooses what runs next.
"""

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from gpu_consumer.assignor import Holding, plan
from tests.benchmarks.affinity.workload import Request


@dataclass(frozen=True, slots=True)
class Device:
    """A batch of n pictures takes `base + each * n` seconds; another model than before, `swap` more."""

    base: float
    each: float
    bucket: int
    swap: float = 22.7

    def seconds(self, pictures: int) -> float:
        return self.base + self.each * pictures

    @property
    def rate_max(self) -> float:
        """Pictures a second without a swap, every batch full."""
        return self.bucket / self.seconds(self.bucket)


class Queue(Protocol):
    """What waits at one consumer."""

    def add(self, request: Request, now: float) -> None: ...

    def take(self, now: float, loaded: str | None) -> Sequence[Request]:
        """What runs next, of one configuration; nothing: ask again at `next_at`."""

    def next_at(self, now: float) -> float | None: ...

    def give_back(self) -> list[Request]:
        """All that waits, for its partition has another owner."""


@dataclass(slots=True)
class Consumer:
    queue: Queue
    holding: Holding = field(default_factory=Holding)
    loaded: str | None = None
    busy_until: float = 0.0
    running: bool = False
    leaves: bool = False


@dataclass(slots=True)
class Seen:
    """Of what began from `since` on: seconds that each picture waited for its run, pictures, runs, swaps, and how much
    more work than the others the busiest consumer was sent."""

    since: float
    waits: list[float] = field(default_factory=list)
    done: int = 0
    runs: int = 0
    swaps: int = 0
    busiest: float = 1.0  # of a phase between two changes of the group, over its mean

    @property
    def swapped(self) -> float:
        """Swaps a run."""
        return self.swaps / self.runs


class Router(Protocol):
    def partition(self, request: Request) -> int: ...

    def tick(self, now: float) -> None:
        """Called every `period` seconds."""


@dataclass(slots=True)
class Pool:
    device: Device
    partitions: int
    router: Router
    make_queue: Callable[[], Queue]
    backlog_max: int
    period: float = 60.0
    consumers: dict[str, Consumer] = field(default_factory=dict)
    _logs: list[deque[Request]] = field(init=False)
    _owner: dict[int, str] = field(default_factory=dict)
    _inside: dict[str, int] = field(default_factory=dict)
    _sent: dict[str, float] = field(default_factory=dict)
    _generation: int = 0
    _born: int = 0
    _where: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._logs = [deque() for _ in range(self.partitions)]

    def run(self, arrivals: Iterable[Request], until: float, sizes: Mapping[float, int], *, since: float) -> Seen:
        """`sizes`: how many consumers there are from each moment on. What is not done at the end is not counted."""
        seen = Seen(since)
        events: list[tuple[float, int, str]] = []
        order = 0

        def at(moment: float, what: str) -> None:
            nonlocal order
            order += 1
            heapq.heappush(events, (moment, order, what))

        for moment in sizes:
            at(moment, "resize")
        at(self.period, "tick")
        coming = iter(arrivals)
        following = next(coming, None)
        while True:
            moment = events[0][0] if events else until
            if following is not None and following.arrival < moment:
                self._arrive(following, seen)
                wakes = [self._owner[self._where[following.number]]]
                now, following = following.arrival, next(coming, None)
            elif events and moment < until:
                now, _, what = heapq.heappop(events)
                if what == "resize":
                    self._count_phase(seen)
                    self._resize(sizes[now], now)
                    wakes = list(self.consumers)
                elif what == "tick":
                    self.router.tick(now)
                    at(now + self.period, "tick")
                    wakes = []
                else:
                    wakes = [what]
                    if what in self.consumers and self.consumers[what].busy_until <= now:
                        self.consumers[what].running = False
            else:
                break
            for name in wakes:
                self._serve(name, now, seen, at)
        self._count_phase(seen)
        return seen

    def _arrive(self, request: Request, seen: Seen) -> None:
        number = self._where[request.number] = self.router.partition(request)
        self._logs[number].append(request)
        if request.arrival >= seen.since:
            name = self._owner[number]
            self._sent[name] = self._sent.get(name, 0.0) + request.config.price.gpu_seconds

    def _serve(self, name: str, now: float, seen: Seen, at: Callable[[float, str], None]) -> None:
        consumer = self.consumers.get(name)
        if consumer is None:
            return
        self._fetch(name, consumer, now)
        if consumer.running:
            return
        if consumer.leaves:
            del self.consumers[name]
            return
        batch = consumer.queue.take(now, consumer.loaded)
        if not batch:
            if (again := consumer.queue.next_at(now)) is not None:
                at(max(again, now + 1e-6), name)
            return
        self._inside[name] -= len(batch)
        model = batch[0].config.model_key
        swap = 0.0 if model == consumer.loaded else self.device.swap
        consumer.loaded, consumer.running = model, True
        consumer.busy_until = now + swap + self.device.seconds(len(batch))
        at(consumer.busy_until, name)
        if now >= seen.since:
            seen.runs += 1
            seen.swaps += swap > 0
            seen.done += len(batch)
            seen.waits += [now + swap - request.arrival for request in batch]

    def _fetch(self, name: str, consumer: Consumer, now: float) -> None:
        """From its partitions in turns, up to its bound, in the order of each log."""
        if consumer.leaves:
            return
        logs = [self._logs[number] for number in consumer.holding.indexes if self._logs[number]]
        while logs and self._inside[name] < self.backlog_max:
            for log in logs:
                consumer.queue.add(log.popleft(), now)
                self._inside[name] += 1
            logs = [log for log in logs if log]

    def _resize(self, size: int, now: float) -> None:
        staying = [name for name, consumer in self.consumers.items() if not consumer.leaves]
        for name in staying[size:]:
            self.consumers[name].leaves = True
        for _ in range(size - len(staying)):
            self._born += 1
            self.consumers[f"consumer-{self._born}"] = Consumer(self.make_queue())
        members = {name: each.holding for name, each in self.consumers.items() if not each.leaves}
        self._generation += 1
        planned = plan(range(self.partitions), members)
        for name, consumer in self.consumers.items():
            indexes = tuple(planned.get(name, ()))
            if indexes != consumer.holding.indexes:  # what waits goes back to its log, in the order of arrival
                for request in sorted(consumer.queue.give_back(), key=lambda each: each.number, reverse=True):
                    self._logs[self._where[request.number]].appendleft(request)
                self._inside[name] = 0
            consumer.holding = Holding(indexes, self._generation)
            self._owner |= dict.fromkeys(indexes, name)
        for name in [name for name, each in self.consumers.items() if each.leaves and not each.running]:
            del self.consumers[name]

    def _count_phase(self, seen: Seen) -> None:
        staying = [name for name, each in self.consumers.items() if not each.leaves]
        total = sum(self._sent.get(name, 0.0) for name in staying)
        if total:
            busiest = max(self._sent.get(name, 0.0) for name in staying) * len(staying) / total
            seen.busiest = max(seen.busiest, busiest)
        self._sent = {}
