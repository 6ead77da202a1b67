"""The signal of every pool, summed up as news come in, and for how long it is believed."""

import asyncio
import logging
import math
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from infra.scaler.book import Book
from infra.scaler.groups import Groups
from infra.scaler.ledgers import Ledgers
from infra.scaler.metrics import ScalerMetrics
from infra.scaler.reader import WorkReader
from infra.scaler.settings import ScalerSettings
from infra.scaler.signal import Fleet, Signal
from schemas.request import LANES
from schemas.topics import Catalogue
from streams.facts.prices import PricesFact
from streams.kafka.settings import KafkaSettings

_LOG = logging.getLogger(__name__)
_SHARE = 9  # summing up takes a tenth of the time at most, however much is remembered


class Figures:
    """Three sources a pool: the group's offsets, the records that wait, the ledger. Any two of them may be away: the
    offsets alone give lag times the usual job's seconds, records and ledger together need no offsets. Beside them what
    is measured, without which jobs cost what they were priced at."""

    def __init__(
        self,
        settings: ScalerSettings,
        kafka: KafkaSettings,
        catalogue: Catalogue,
        item_seconds: Mapping[str, float],
        metrics: ScalerMetrics,
        *,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._metrics = metrics
        self._wall = wall
        self._catalogue = catalogue
        self._pools = catalogue.pools
        self._books = {
            name: Book(
                pool.partitions, item_seconds[name], max(1, settings.items_max // (pool.partitions * len(LANES)))
            )
            for name, pool in catalogue.pools.items()
        }
        self._groups = Groups(kafka, catalogue, self._books, settings.look_seconds, self.changed)
        self._reader = WorkReader(kafka, catalogue, self._books, self.changed)
        self._ledgers = {
            name: Ledgers(kafka, catalogue, name, book, self.changed) for name, book in self._books.items()
        }
        self._prices = PricesFact(kafka, catalogue)
        self._warned: set[str] = set()
        self._signals: dict[str, Signal] = {}
        self._dirty: set[str] = set()
        self._news = asyncio.Event()
        self._told: dict[str, asyncio.Event] = {name: asyncio.Event() for name in self._books}

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """Begin to follow; does not wait for the broker. What ends a task for good ends the block."""
        async with AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
            for followed in (*self._ledgers.values(), self._prices):
                await stack.enter_async_context(followed)
            running = [tasks.create_task(each) for each in (self._groups.run(), self._reader.run(), self._sum_up())]
            try:
                yield
            finally:
                for task in running:
                    task.cancel()

    def current(self, pool: str) -> Signal | None:
        """What is believed now; never blocks. None: nothing was heard for too long, and nobody may guess."""
        if self.age_seconds(pool) > self._settings.age_seconds_max:
            return None
        if pool not in self._signals:
            self._count(pool)
        return self._signals[pool]

    def age_seconds(self, pool: str) -> float:
        offsets, records, ledger = self._ages(pool).values()
        return min(offsets, max(records, ledger))

    def disbelieved(self, pool: str) -> str | None:
        """Why all that a lane of the pool holds counts as waiting, if it does: a sentence."""
        places = self._books[pool].disbelieved()
        if not places:
            return None
        first, more = places[0], f", and {len(places) - 1} more" if len(places) > 1 else ""
        return (
            f"{self._catalogue.work(pool, first.lane)}[{first.index}]{more} ends below what is told to be finished of "
            "it: it was made anew, or has lost its end; all that it holds counts as waiting, and consumers pass it by; "
            "docs/runbooks/KilnLedgerBeyondWork.md says what to do"
        )

    def news(self, pool: str) -> asyncio.Event:
        """Set when the pool is summed up next. Take it before you look at `current`."""
        return self._told[pool]

    def changed(self, pool: str) -> None:
        """Something was heard of the pool. The first work of one at rest is summed up at once."""
        signal = self._signals.get(pool)
        if signal is None or not signal.seconds:
            self._count(pool)
        else:
            self._dirty.add(pool)
            self._news.set()

    async def _sum_up(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._settings.look_seconds):
                    await self._news.wait()
                pools, self._dirty = self._dirty, set()
            except TimeoutError:
                pools = set(self._books)  # deadlines come nearer by themselves
            self._news.clear()
            began = time.monotonic()
            for pool, book in self._books.items():
                book.measure({of: seconds for (where, of), seconds in self._prices.prices.items() if where == pool})
            for pool in pools:
                self._count(pool)
                await asyncio.sleep(0)
            cost = time.monotonic() - began
            await asyncio.sleep(max(self._settings.count_seconds, _SHARE * cost))

    def _count(self, pool: str) -> None:
        if math.isinf(self.age_seconds(pool)):
            return  # nothing is known yet, which is not nothing to do
        fleet = Fleet.of(self._pools[pool], self._groups.consumers(pool))
        self._signals[pool] = self._books[pool].signal(fleet, self._wall())
        self._told[pool].set()
        self._told[pool] = asyncio.Event()

    def _ages(self, pool: str) -> dict[str, float]:
        return {
            "offsets": self._groups.age_seconds(pool),
            "records": self._reader.age_seconds,
            "ledger": self._ledgers[pool].age_seconds,
        }

    def expose(self) -> None:
        """As metrics, again and again: an age that only grows is not told by any news. What is believed no longer is
        not exposed either."""
        for pool, book in self._books.items():
            ages = self._ages(pool)
            self._metrics.set("signal_age_seconds", self.age_seconds(pool), pool=pool)
            for source, age in ages.items():
                self._metrics.set("source_age_seconds", age, pool=pool, source=source)
            offsets_there = ages["offsets"] <= self._settings.age_seconds_max
            self._metrics.tell("consumers", self._groups.consumers(pool) if offsets_there else None, pool=pool)
            signal = self.current(pool)
            disbelieved = None if signal is None else len(book.disbelieved())
            self._metrics.tell("disbelieved_partitions", disbelieved, pool=pool)
            for lane in LANES:
                seconds = None if signal is None else signal.waiting[lane]
                self._metrics.tell("waiting_gpu_seconds", seconds, pool=pool, lane=lane)
            self._metrics.tell("running_gpu_seconds", None if signal is None else signal.running, pool=pool)
            self._metrics.tell("replicas_in_time", None if signal is None else signal.replicas, pool=pool)

    def warn(self) -> None:
        """Log what is disbelieved, once."""
        for pool in self._books:
            if (said := self.disbelieved(pool)) is None:
                self._warned.discard(pool)
            elif pool not in self._warned:
                _LOG.error("%s", said)
                self._warned.add(pool)
