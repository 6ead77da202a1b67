"""Which partition indexes are ours, and the opening of their leases: at assignment, and again after each doubt."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Set
from typing import Any, Protocol

from gpu_consumer.clock import Clock
from gpu_consumer.index import Index
from gpu_consumer.metrics import GpuMetrics
from schemas.errors import SchemaError
from streams.backoff import Backoff
from streams.kafka.errors import LeaseVoid, StreamError
from streams.kafka.settings import KafkaSettings

_LOG = logging.getLogger(__name__)


class CannotOpen(Exception):
    """An index that is ours cannot be opened. End the process without a commit, so that another may try."""


class Member(Protocol):
    async def __call__(self) -> bool:
        """Is the consumer a live member of its group at this moment?"""
        ...


class Owner:
    """For one loop. `adopted` is told of each index that is open, `lost` of each that was and is ours no more;
    `hand_over` may write to that one for the last time."""

    def __init__(
        self,
        kafka: KafkaSettings,
        metrics: GpuMetrics,
        clock: Clock,
        *,
        make: Callable[[int], Index],
        is_live_member: Member,
        open_seconds_max: float,
        hand_over_seconds: float,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        adopted: Callable[[Index], None],
        lost: Callable[[Index], None],
        hand_over: Callable[[Index], Awaitable[None]],
    ) -> None:
        self._kafka = kafka
        self._metrics = metrics
        self._clock = clock
        self._make = make
        self._is_live_member = is_live_member
        self._open_seconds_max = open_seconds_max
        self._hand_over_seconds = hand_over_seconds
        self._spawn = spawn
        self._adopted = adopted
        self._lost = lost
        self._hand_over = hand_over
        self._assigned: set[int] = set()
        self._opening: set[int] = set()
        self._indexes: dict[int, Index] = {}
        self.problem: str | None = None  # of the last opening that failed

    @property
    def open(self) -> Iterable[Index]:
        return [index for index in self._indexes.values() if index.is_open]

    @property
    def all_open(self) -> bool:
        return self._assigned == {index.number for index in self.open}

    def get(self, number: int) -> Index | None:
        """The index, if it is open."""
        index = self._indexes.get(number)
        return index if index is not None and index.is_open else None

    def assign(self, numbers: set[int], moved: Set[int] = frozenset()) -> None:
        """The group's word after a rebalance. What runs of an index that is gone goes on: the fence decides. Who had
        one of those that `moved` here may write to it for the last time, before it is fenced.
        """
        self._assigned = set(numbers)
        for number in self._indexes.keys() - numbers:
            self._close(self._indexes.pop(number))
        for number in sorted(numbers):
            if self.get(number) is None:
                self._start_opening(number, self._hand_over_seconds if number in moved else 0.0)
        self._count()

    def void(self, index: Index, error: LeaseVoid) -> None:
        """A transaction of this index is in doubt. Drop it, and open another if it is still ours."""
        if self._indexes.get(index.number) is not index:
            return  # told before, or not ours any more
        _LOG.warning("index %d: %s", index.number, error)
        self._metrics.count("lease_voids_total", index=str(index.number))
        self._close(self._indexes.pop(index.number))
        if index.number in self._assigned:
            self._start_opening(index.number)
        self._count()

    async def close(self) -> None:
        """Give up every lease, after the transactions under way."""
        self._assigned = set()
        indexes, self._indexes = list(self._indexes.values()), {}
        await asyncio.gather(*(index.close() for index in indexes))

    def _close(self, index: Index) -> None:
        index.lose()
        self._lost(index)
        self._spawn(self._part_with(index))

    async def _part_with(self, index: Index) -> None:
        await self._hand_over(index)
        await index.close()

    def _start_opening(self, number: int, wait_seconds: float = 0.0) -> None:
        if number not in self._opening:
            self._opening.add(number)
            self._spawn(self._keep_opening(number, wait_seconds))

    async def _keep_opening(self, number: int, wait_seconds: float) -> None:
        """Until the index is open or not ours any more. Raises CannotOpen after too long."""
        backoff = Backoff(self._kafka.backoff_first_ms / 1000, self._kafka.backoff_most_ms / 1000)
        since: float | None = None
        try:
            await asyncio.sleep(wait_seconds)
            while number in self._assigned:
                # A zombie that wakes must not fence its successor: ask the group before each try.
                if await self._is_live_member() and number in self._assigned:
                    since = since or self._clock.steady()
                    index = self._make(number)
                    if await self._try(index):
                        return
                    if self._clock.steady() - since > self._open_seconds_max:
                        raise CannotOpen(f"index {number} could not be opened: {self.problem}")
                else:
                    since = None
                await asyncio.sleep(backoff.next())
        finally:
            self._opening.discard(number)
            self._count()

    async def _try(self, index: Index) -> bool:
        try:
            await index.open()
        except (StreamError, SchemaError) as error:
            self.problem = f"index {index.number}: {error}"
            _LOG.warning("%s", self.problem)
            await index.close()
            return False
        if index.number not in self._assigned:
            await index.close()
            return False  # it may have come back while this one was closed
        self.problem = None
        self._metrics.count("lease_openings_total", index=str(index.number))
        self._metrics.observe("lease_open_seconds", index.opened_seconds)
        self._indexes[index.number] = index
        self._adopted(index)
        return True

    def _count(self) -> None:
        self._metrics.set("indexes", len(list(self.open)), state="open")
        self._metrics.set("indexes", len(self._assigned) - len(list(self.open)), state="opening")
