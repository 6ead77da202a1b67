"""One partition index of a pool: the lease over its lanes, their ledgers, and the owner's own next offsets."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from aiokafka import TopicPartition

from gpu_consumer.intake import Cursor, Step
from gpu_consumer.ledger import Ledger, Mark
from schemas.request import LANES, Lane
from schemas.topics import Catalogue
from streams.fitting import fitting
from streams.kafka.errors import LeaseVoid
from streams.kafka.lease import Lease, Transaction
from streams.kafka.log import Record
from streams.kafka.sending import Output
from streams.kafka.settings import KafkaSettings

_LOG = logging.getLogger(__name__)
_CHANGES_MAX = 500  # a transaction; a result is a few KiB, and the broker takes them in batches of half a MiB
_BYTES_MAX = 8 << 20  # a transaction of large dead letters, which has to be through before its deadline


@dataclass(frozen=True, slots=True)
class Change:
    """One edit of a lane's ledger, and the records that go with it."""

    lane: Lane
    edit: Callable[[Ledger], None]
    outputs: tuple[Output, ...] = ()


def finish(lane: Lane, offset: int, *outputs: Output) -> Change:
    return Change(lane, lambda ledger: ledger.finish(offset), outputs)


def finish_range(lane: Lane, start: int, stop: int) -> Change:
    return Change(lane, lambda ledger: ledger.finish_range(start, stop))


def mark(lane: Lane, offset: int, value: Mark) -> Change:
    return Change(lane, lambda ledger: ledger.mark(offset, value))


def unmark(lane: Lane, offset: int) -> Change:
    return Change(lane, lambda ledger: ledger.unmark(offset))


def _hand_back(lane: Lane, incarnation: str, keeps: Callable[[Lane, int], bool]) -> Change:
    return Change(lane, lambda ledger: ledger.hand_back(incarnation, lambda offset: keeps(lane, offset)))


def _count_for_one(changes: Sequence[Change]) -> int:
    """How many of the changes one transaction takes."""
    sizes = (sum(len(output.value or b"") for output in change.outputs) for change in changes)
    return fitting(sizes, _CHANGES_MAX, _BYTES_MAX)


class Index:
    """Opened once. After LeaseVoid it is worthless: make another, if the partitions are still ours.

    The ledgers in memory are what is committed. Every change of them goes through `write`, which builds each
    transaction from them inside the lease's lock.
    """

    def __init__(self, kafka: KafkaSettings, catalogue: Catalogue, pool: str, number: int) -> None:
        self.number = number
        self._ledger_topic = catalogue.ledger(pool)
        self._partitions = {lane: TopicPartition(catalogue.work(pool, lane), number) for lane in LANES}
        self._lease = Lease(
            kafka,
            transactional_id=catalogue.gpu_transactional_id(pool, number),
            group=catalogue.gpu_group(pool),
            log=[TopicPartition(self._ledger_topic, number)],
        )
        self._ledgers: dict[Lane, Ledger] = {lane: Ledger() for lane in LANES}
        self._cursors: dict[Lane, Cursor] = {}
        self._waiting: list[Change] = []
        self._asked = 0
        self._written = 0
        self._writing = asyncio.Lock()
        self._lost = False
        self.opened_seconds = 0.0

    @property
    def is_open(self) -> bool:
        return bool(self._cursors) and self._lease.is_open and not self._lost

    @property
    def void(self) -> bool:
        """True once its owner has given it up, or a transaction was in doubt. It stays so."""
        return self._lost or self._lease.void

    def lose(self) -> None:
        """Write no more from here on; `close` follows."""
        self._lost = True

    def partition(self, lane: Lane) -> TopicPartition:
        return self._partitions[lane]

    def ledger(self, lane: Lane) -> Ledger:
        """As committed. Do not change it."""
        return self._ledgers[lane]

    def next(self, lane: Lane) -> int:
        return self._cursors[lane].next

    async def open(self) -> None:
        """Fence the former owner, read what is finished, and say so to the group, unconditionally: its offset may have
        been reset, and lag must be right also where nothing is left to do.

        Check that the consumer is a live member before. Raises LeaseVoid; what a ledger that cannot be read raises.
        """
        began = time.monotonic()
        await self._lease.open(self._fold)
        await self._lease.transact(lambda: self._transaction(self._ledgers, self._ledgers.keys()))
        self._cursors = {lane: Cursor(ledger.watermark) for lane, ledger in self._ledgers.items()}
        self.opened_seconds = time.monotonic() - began

    def _fold(self, record: Record) -> None:
        lane = next((each for each in LANES if record.key == each.encode()), None)
        if lane is not None and record.value is not None:
            self._ledgers[lane] = Ledger.decode(record.value)

    def look(self, lane: Lane, offset: int) -> Step:
        """What an offset that was fetched is to us. `NEXT` does not take it: `advance` does."""
        return self._cursors[lane].look(offset)

    def advance(self, lane: Lane, offset: int) -> bool:
        """Take an offset. False: it is finished already, as others beyond the watermark are after an opening."""
        self._cursors[lane].next = offset + 1
        return not self._ledgers[lane].done(offset)

    def skip(self, lane: Lane, offset: int) -> Change:
        """Pass over a hole that a seek has proven, up to `offset`; the change finishes it."""
        cursor = self._cursors[lane]
        start, cursor.next = cursor.next, offset
        return finish_range(lane, start, offset)

    def room(self, lane: Lane, run_ahead_max: int) -> bool:
        """May the next offset be taken?"""
        return self._ledgers[lane].room(self._cursors[lane].next, run_ahead_max)

    async def write(self, changes: Iterable[Change]) -> None:
        """Commit the changes, together with those that others asked for meanwhile: on return they are committed.

        Raises LeaseVoid for any doubt. After a CancelledError they may be committed or not.
        """
        added = list(changes)
        if self.void:
            raise LeaseVoid(f"the lease of index {self.number} is void")
        await self._commit(added)

    async def _commit(self, added: Sequence[Change]) -> None:
        self._waiting += added
        self._asked += len(added)
        ticket = self._asked
        while self._written < ticket:
            async with self._writing:
                if self._written < ticket:
                    await self._write_waiting()

    async def _write_waiting(self) -> None:
        batch: list[Change] = []
        after: dict[Lane, Ledger] = {}

        def build() -> Transaction:
            batch.extend(self._waiting[: _count_for_one(self._waiting)])
            del self._waiting[: len(batch)]
            for change in batch:
                if change.lane not in after:
                    after[change.lane] = self._ledgers[change.lane].copy()
                change.edit(after[change.lane])
            # Marks move no offset; to write one costs two answers of the broker more, while a picture waits to begin.
            moved = [lane for lane, ledger in after.items() if ledger.watermark != self._ledgers[lane].watermark]
            return self._transaction(after, moved, [output for change in batch for output in change.outputs])

        await self._lease.transact(build)
        self._ledgers |= after
        self._written += len(batch)

    def _transaction(
        self, ledgers: Mapping[Lane, Ledger], moved: Iterable[Lane], outputs: Iterable[Output] = ()
    ) -> Transaction:
        for lane, ledger in ledgers.items():
            assert ledger.watermark >= self._ledgers[lane].watermark, "a watermark never falls"
        records = [
            Output(self._ledger_topic, self.number, lane.encode(), ledger.encode()) for lane, ledger in ledgers.items()
        ]
        return Transaction([*outputs, *records], {self._partitions[lane]: ledgers[lane].watermark for lane in moved})

    async def hand_back(self, incarnation: str, keeps: Callable[[Lane, int], bool] = lambda *_: False) -> None:
        """Clear this process' marks, so that the next owner starts at once and counts no death: also those that are
        being written. What it `keeps` is asked for each of them, once, when the transaction is built.

        Of an index that was lost too, until `close`: then this is its last transaction, if nobody has fenced us yet.
        Raises LeaseVoid.
        """
        if not self._cursors or not self._lease.is_open:
            return
        marked = any(mark.incarnation == incarnation for each in self._ledgers.values() for mark in each.marks.values())
        if marked or self._written < self._asked:
            await self._commit([_hand_back(lane, incarnation, keeps) for lane in LANES])

    async def close(self) -> None:
        """After the transaction under way. Bounded by the lease's own deadlines."""
        self._lost = True
        await self._lease.close()
