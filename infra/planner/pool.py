"""A pool of GPU consumers on a virtual clock: requests fall to partitions, partitions to consumers, time to models.

Everything that decides is given in: who routes, who chooses what runs next, and who says how many consumers there
should be. A consumer is paid for from the moment it is asked for, joins its group when it has loaded, and leaves it
when what it ran has ended: its partitions wait for that, and for the rebalance.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from infra.planner.consumer import Consumer
from infra.planner.device import Card
from infra.planner.given import Queue, Router, Watcher
from infra.planner.group import Group
from infra.planner.house import House
from infra.planner.offsets import Log
from infra.planner.request import Request
from infra.scaler.signal import Job
from schemas.request import LANES, Lane

PERIOD_SECONDS = 60.0  # between two tables of places
_SOON = 1e-6  # seconds


class Scaler(Protocol):
    def look(self, now: float, pool: "Pool") -> float:
        """May call `pool.scale`. Returns when it looks again; it is first asked at 0."""


class Pool:
    def __init__(
        self, card: Card, house: House, router: Router, make_queue: Callable[[], Queue], watcher: Watcher
    ) -> None:
        self.partitions = house.partitions
        self.load_seconds = house.load_seconds
        self.consumers: dict[str, Consumer] = {}
        self.waiting: dict[int, Job] = {}  # by the number of its request: appended, and nothing of it was chosen
        self.paid_seconds = 0.0  # of consumers that are gone
        self.busy_seconds = 0.0  # the same
        self.lags: dict[Lane, int] = dict.fromkeys(LANES, 0)  # as the group's committed offsets have them
        self._card = card
        self._router = router
        self._make_queue = make_queue
        self._house = house
        self._watcher = watcher
        self._group = Group(house.partitions, house.rebalance_seconds)
        self._logs = [Log() for _ in range(house.partitions)]
        self._place: dict[int, tuple[int, int]] = {}  # of each request that is not done: partition and offset
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._order = 0
        self._born = 0
        self._size = 0
        self._due: list[tuple[float, int]] = []  # a heap: deadline and number of what may still wait then

    # What a scaler sees and says.

    @property
    def size(self) -> int:
        """Consumers that are to stay, loading ones too: the replicas that a deployment says."""
        return self._size

    @property
    def works(self) -> bool:
        """Something waits or runs."""
        return bool(self.waiting) or any(each.works for each in self.consumers.values())

    @property
    def rebalances(self) -> int:
        return self._group.rebalances

    def staying(self) -> list[Consumer]:
        return [each for each in self.consumers.values() if not each.leaves]

    def scale(self, size: int, now: float) -> None:
        """Out at once. In: those that load first, then those with the least to finish, as pod-deletion-cost has it."""
        self._size, staying = size, self.staying()
        for _ in range(size - len(staying)):
            self._born += 1
            consumer = Consumer(
                f"consumer-{self._born}", now, self._make_queue(), self._card, self._house, self._watcher,
                claimed=self._claimed, done=self._done,
            )  # fmt: skip
            self.consumers[consumer.name] = consumer
        if size > len(staying):
            self._at(now + self.load_seconds, self._join)
        elif size < len(staying):
            order = sorted(staying, key=lambda each: (each.ready, each.deletion_cost(now), -each.asked_at))
            self._let_go(order[: len(staying) - size], now)

    def expire(self, now: float) -> None:
        """Let what is over leave the queues. A pool does it by itself before each choice."""
        while self._due and self._due[0][0] <= now:
            _, number = heapq.heappop(self._due)
            if number in self.waiting and (owner := self._group.owner(self._place[number][0])) is not None:
                owner.expire(now)
                if owner.behind:
                    self._serve(owner, now)

    # The clock.

    def run(self, arrivals: Iterable[Request], until: float, scaler: Scaler) -> None:
        """What is not done at the end is in `waiting`, or runs. Consumers are paid until the end."""
        self._look(0.0, scaler)
        self._at(PERIOD_SECONDS, self._tick)
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
        self._at(now + PERIOD_SECONDS, self._tick)

    # Requests.

    def _arrive(self, request: Request) -> None:
        index = self._router.partition(request)
        log = self._logs[index]
        self._place[request.number] = (index, log.append(request.lane))
        self.lags[request.lane] += 1
        self.waiting[request.number] = Job(request.seconds, request.deadline)
        heapq.heappush(self._due, (request.deadline, request.number))
        owner = self._group.owner(index)
        self._watcher.arrived(request, None if owner is None else owner.name)
        log.waiting.append(request)
        if owner is not None:
            self._fetch(owner, request.arrival, (index,))
            if not owner.engaged:
                self._serve(owner, request.arrival)

    def _serve(self, consumer: Consumer, now: float) -> None:
        wakes_at = consumer.go_on(now)
        if consumer.leaves and not consumer.works:
            self._gone(consumer, now)
            self._rebalance(now)
            return
        while consumer.behind and not consumer.full:
            self._fetch(consumer, now)
            wakes_at = consumer.go_on(now)
        self._wake_at(consumer, wakes_at)

    def _wake_at(self, consumer: Consumer, moment: float | None) -> None:
        if moment is not None and moment != consumer.wakes_at:
            self._at(moment, lambda at: self._wake(consumer, at))
        consumer.wakes_at = moment

    def _wake(self, consumer: Consumer, now: float) -> None:
        if consumer.wakes_at == now:  # else it was served meanwhile
            consumer.wakes_at = None
            self._serve(consumer, now)

    def _claimed(self, request: Request) -> None:
        del self.waiting[request.number]

    def _done(self, request: Request, now: float, made: bool) -> None:
        self.waiting.pop(request.number, None)
        index, offset = self._place.pop(request.number)
        self.lags[request.lane] -= self._logs[index].finish(request.lane, offset)
        self._watcher.ended(now, request, made=made)

    def _fetch(self, consumer: Consumer, now: float, indexes: Sequence[int] | None = None) -> None:
        """From its partitions in turns, up to its bound, in the order of each log."""
        if consumer.leaves:
            return
        consumer.behind = consumer.full
        if consumer.full:
            return
        mine = consumer.holding.indexes if indexes is None else indexes
        logs = [log for index in mine if (log := self._logs[index].waiting) and self._group.fetches(index, now)]
        while logs and not consumer.full:
            for log in logs:
                request = log.popleft()
                consumer.add(request, now)
                if request.deadline <= now:
                    heapq.heappush(self._due, (request.deadline, request.number))
            logs = [log for log in logs if log]
        consumer.behind = bool(logs)

    # The group.

    def _join(self, now: float) -> None:
        for consumer in self.consumers.values():
            if not consumer.ready and now - consumer.asked_at >= self.load_seconds - _SOON:
                consumer.ready = True
        self._rebalance(now)

    def _let_go(self, leaving: Sequence[Consumer], now: float) -> None:
        """What is not certain to be made there goes back; those that make nothing go at once, together."""
        for each in leaving:
            each.leaves = True
            self._give_back(each, range(self.partitions), now)
        idle = [each for each in leaving if not each.works]
        for each in idle:
            self._gone(each, now)
        if any(each.ready for each in idle):
            self._rebalance(now)

    def _gone(self, consumer: Consumer, now: float) -> None:
        del self.consumers[consumer.name]
        consumer.wakes_at = None
        self.paid_seconds += now - consumer.asked_at
        self.busy_seconds += consumer.busy(now)

    def _give_back(self, consumer: Consumer, lost: Iterable[int], now: float) -> None:
        """To the logs, in the order of arrival."""
        moved = set(lost)
        back = consumer.give_back(lambda request: self._place[request.number][0] in moved, now)
        for request in reversed(back):
            self.waiting[request.number] = Job(request.seconds, request.deadline)
            self._logs[self._place[request.number][0]].waiting.appendleft(request)

    def _rebalance(self, now: float) -> None:
        """Who joined or left changes who owns what: what moves waits for its new owner."""
        members = {name: each for name, each in self.consumers.items() if each.ready}
        free_at, lost = self._group.rebalance(members, now)
        for member, indexes in lost.items():
            if indexes:
                self._give_back(member, indexes, now)
                self._wake_at(member, now)
        self._at(free_at, self._go_on)

    def _go_on(self, now: float) -> None:
        for consumer in list(self.consumers.values()):
            if consumer.ready:
                self._fetch(consumer, now)
                if not consumer.engaged:
                    self._serve(consumer, now)
