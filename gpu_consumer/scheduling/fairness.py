"""Whose turn it is: lanes by weight, then the least-served tenant, then the earliest deadline. Pure.

Service is counted in GPU-seconds, a lane's divided by its weight. Who was away does not save up: back in the queue, one
starts no lower than the least of those who were waiting all the time.
"""

import heapq
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from schemas.request import LANES, Lane

_FORGOTTEN_MAX = 1024  # accounts of tenants that wait for nothing, before half of them are dropped


@dataclass(slots=True)
class Account:
    """GPU-seconds that somebody was given. `served` never falls: what was booked too much pays for what comes next."""

    served: float = 0.0
    credit: float = 0.0

    def book(self, seconds: float) -> None:
        due = seconds - self.credit
        self.served += max(0.0, due)
        self.credit = max(0.0, -due)


class Shares:
    """The accounts of lanes and of the tenants within each."""

    def __init__(self, weights: Mapping[Lane, float]) -> None:
        self._weights = weights
        self._lanes = {lane: Account() for lane in LANES}
        self._tenants: dict[Lane, dict[str, Account]] = {lane: {} for lane in LANES}
        self._lane_floor = 0.0
        self._floors: dict[Lane, float] = dict.fromkeys(LANES, 0.0)

    def lane(self, lane: Lane) -> float:
        return self._lanes[lane].served

    def tenant(self, lane: Lane, tenant: str) -> float:
        account = self._tenants[lane].get(tenant)
        return self._floors[lane] if account is None else account.served

    def begin(self, lane: Lane, least: float | None) -> None:
        """The lane waits for something again. `least`: of the lanes that do, None if there is no other."""
        account = self._lanes[lane]
        account.served = max(account.served, self._lane_floor if least is None else least)

    def begin_tenant(self, lane: Lane, tenant: str, least: float | None) -> None:
        """The tenant waits for something again in this lane. `least`: of the tenants that do."""
        if least is not None:
            self._floors[lane] = max(self._floors[lane], least)
        account = self._tenants[lane].setdefault(tenant, Account())
        account.served = max(account.served, self._floors[lane])

    def book(self, lane: Lane, tenant: str, seconds: float) -> None:
        """Below 0: so much was booked too much."""
        self._lanes[lane].book(seconds / self._weights[lane])
        self._tenants[lane].setdefault(tenant, Account(self._floors[lane])).book(seconds)

    def book_passing(self, lane: Lane, tenant: str, seconds: float, turn: Lane) -> None:
        """The same where it is the turn of another, in lane `turn`. It sets its own lane behind that one, and no
        further: else what passes would use up the turns of all in its lane who cannot pass.
        """
        behind = max(0.0, self.lane(turn) - self.lane(lane))
        self._lanes[lane].book(min(seconds / self._weights[lane], behind))
        self._tenants[lane].setdefault(tenant, Account(self._floors[lane])).book(seconds)

    def turn(self, lane: Lane, tenant: str) -> None:
        """It is about to be booked for whose turn it is: nobody starts below that any more."""
        self._lane_floor = max(self._lane_floor, self.lane(lane))
        self._floors[lane] = max(self._floors[lane], self.tenant(lane, tenant))

    def forget_idle(self, lane: Lane, waiting: Mapping[str, object]) -> None:
        """Where too many wait for nothing, drop half of them: those that differ the least from a newcomer."""
        tenants = self._tenants[lane]
        if len(tenants) > len(waiting) + _FORGOTTEN_MAX:
            idle = sorted((account.served, tenant) for tenant, account in tenants.items() if tenant not in waiting)
            for _, tenant in idle[: len(idle) // 2]:
                del tenants[tenant]


@dataclass(slots=True, eq=False)
class Entry:
    """One who waits. `number` is the order of arrival."""

    lane: Lane
    tenant: str
    deadline: float
    number: int


E = TypeVar("E", bound=Entry)
Turn = tuple[float, int, float, float, int]


class FairQueue(Generic[E]):
    """Entries in the order of their turns. Adding, removing and `first` cost the logarithm of what waits.

    One entry may stand in several queues over the same shares.
    """

    def __init__(self, shares: Shares) -> None:
        self._shares = shares
        self._lanes: dict[Lane, _LaneQueue[E]] = {lane: _LaneQueue(lane, shares) for lane in LANES}
        self._members: set[int] = set()

    def __len__(self) -> int:
        return len(self._members)

    def add(self, entry: E) -> None:
        self._members.add(entry.number)
        self._lanes[entry.lane].add(entry, self._members)

    def remove(self, entry: E) -> None:
        """Harmless where it is not in."""
        self._members.discard(entry.number)

    def first(self) -> E | None:
        """Whose turn it is."""
        best: E | None = None
        for lane in sorted(LANES, key=self._shares.lane):  # stable: the more urgent of equals
            if self._members and (best := self._lanes[lane].first(self._members)) is not None:
                break
        return best

    def least_lane(self) -> float | None:
        """The service of the least-served lane that has something in here."""
        entry = self.first()
        return None if entry is None else self._shares.lane(entry.lane)

    def least_tenant(self, lane: Lane) -> float | None:
        entry = self._lanes[lane].first(self._members)
        return None if entry is None else self._shares.tenant(lane, entry.tenant)

    def turn(self, entry: E) -> Turn:
        """Sorts entries of several queues by their turns."""
        shares = self._shares
        return (
            shares.lane(entry.lane), LANES.index(entry.lane), shares.tenant(entry.lane, entry.tenant), entry.deadline,
            entry.number,
        )  # fmt: skip


class _LaneQueue(Generic[E]):
    """Heaps whose stale entries are dropped when they come up: removed ones, and places of before a service."""

    def __init__(self, lane: Lane, shares: Shares) -> None:
        self._lane = lane
        self._shares = shares
        self._lines: dict[str, list[tuple[float, int, E]]] = {}
        self._order: list[tuple[float, int, str]] = []  # service as it was, arrival, tenant; each of `_lines` once
        self._size = 0

    def add(self, entry: E, members: set[int]) -> None:
        if self._size > 2 * len(members) + 64:
            self._compact(members)
        line = self._lines.get(entry.tenant)
        if line is None:
            line = self._lines[entry.tenant] = []
            # Of those served alike who came first: an endless row of newcomers, who all start there, passes nobody.
            heapq.heappush(self._order, (self._shares.tenant(self._lane, entry.tenant), entry.number, entry.tenant))
        heapq.heappush(line, (entry.deadline, entry.number, entry))
        self._size += 1

    def first(self, members: set[int]) -> E | None:
        order, lines = self._order, self._lines
        while order:
            was, arrival, tenant = order[0]
            line = lines[tenant]
            while line and line[0][1] not in members:
                heapq.heappop(line)
                self._size -= 1
            if not line:
                heapq.heappop(order)
                del lines[tenant]
            elif was < (served := self._shares.tenant(self._lane, tenant)):
                heapq.heapreplace(order, (served, arrival, tenant))
            else:
                return line[0][2]
        return None

    def _compact(self, members: set[int]) -> None:
        lines = {tenant: [each for each in line if each[1] in members] for tenant, line in self._lines.items()}
        self._lines = {tenant: line for tenant, line in lines.items() if line}
        for line in self._lines.values():
            heapq.heapify(line)
        self._order = [(was, arrival, tenant) for was, arrival, tenant in self._order if tenant in self._lines]
        heapq.heapify(self._order)
        self._size = sum(map(len, self._lines.values()))
