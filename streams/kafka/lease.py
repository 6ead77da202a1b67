"""The lease: the right to speak for an input partition, held by the epoch of a transactional.id named after it.

Why it is so
    The consumer's assignment is not an authority: a frozen process wakes and believes that it still has it, and a
    commit of the group's offset carries no generation here (case AIO-10). The producer epoch is one. So every output,
    the log that says what was decided, and the input offset are written in one transaction under that epoch, and the
    truth is what the log says; the group's offset only feeds fetching and lag.

What always holds
    - At most one lease of a transactional.id can commit: opening one fences all others with that id.
    - What `open` folds is everything that any former lease committed, since the log is read to an end that was seen
      after the fence, and the fence returns only when the former transaction has been decided.
    - A transaction is all or nothing: outputs and offsets.
    - After any doubt the lease is void for ever, and nothing more is written under it.
    - The log of a lease is written by no other transactional.id, whose open transaction would hide the truth.

Who may call what
    One task, or several of one event loop: `transact` lets one in at a time, in the order of the calls. `open` comes
    first and once, `close` last, as often as one likes. A void lease is not opened again: make another, after checking
    that the partition is still assigned and that the consumer is a live member of its group, or a woken zombie would
    fence its successor. Nobody else may commit the offsets of these input partitions.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.structs import OffsetAndMetadata

from schemas.errors import told
from streams.kafka.bisect import first_needed
from streams.kafka.clients import stop_client, transactional_producer
from streams.kafka.errors import LeaseVoid, LogTruncated, LogUnavailable
from streams.kafka.log import Record, read_log
from streams.kafka.sending import Output, send_all
from streams.kafka.settings import KafkaSettings

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Transaction:
    """Outputs, the log's records among them, and the next offset to read of each input partition."""

    outputs: Sequence[Output]
    offsets: Mapping[TopicPartition, int]


class Lease:
    """One epoch of one transactional.id. See the module for what it promises."""

    def __init__(
        self, kafka: KafkaSettings, *, transactional_id: str, group: str, log: Sequence[TopicPartition]
    ) -> None:
        self._kafka = kafka
        self._transactional_id = transactional_id
        self._group = group
        self._log = tuple(log)
        self._producer: AIOKafkaProducer | None = None
        self._open = False
        self._void = False
        self._lock = asyncio.Lock()
        self._stopping: asyncio.Task[None] | None = None

    @property
    def void(self) -> bool:
        """True after any doubt, and after close."""
        return self._void

    @property
    def is_open(self) -> bool:
        """True while transactions may be written."""
        return self._open and not self._void

    async def open(self, fold: Callable[[Record], None], unneeded: Callable[[Record], bool] | None = None) -> None:
        """Fence every former owner, then hand each committed record of the log to `fold`, partition after partition in
        the order given, so that one may tell what of the next need not be kept. Where `unneeded` says so of a record,
        that one and all before it in its partition need not be read; then some of those are not.

        Takes as long as what is needed of the log; the fence alone up to kafka.open_timeout_ms. The epoch is taken even
        when this fails. Raises LeaseVoid when it could not be done now; what `fold` and `unneeded` raise, and
        RecordUnreadable, pass, since another try would end the same. In every case but success the lease is void.
        """
        assert self._producer is None, "a lease opens once: make another"
        self._refuse_void()
        async with self._lock:
            try:
                await self._fence_and_read(fold, unneeded)
            except BaseException:
                self._spoil()
                raise
            self._open = True

    async def _fence_and_read(self, fold: Callable[[Record], None], unneeded: Callable[[Record], bool] | None) -> None:
        began = time.monotonic()
        self._producer = transactional_producer(self._kafka, self._transactional_id)
        try:
            async with asyncio.timeout(self._kafka.open_timeout_ms / 1000):
                await self._producer.start()
        except Exception as error:
            raise LeaseVoid(f"{self._transactional_id} could not be fenced: {told(error)}") from error
        fenced = time.monotonic()
        count = 0
        try:
            for partition in self._log:
                start = {} if unneeded is None else {partition: await first_needed(self._kafka, partition, unneeded)}
                async with aclosing(read_log(self._kafka, [partition], start=start)) as records:
                    async for record in records:
                        self._refuse_void()
                        fold(record)
                        count += 1
        except (LogUnavailable, LogTruncated) as error:
            # Truncated while it was read from its start: the next reading starts later.
            raise LeaseVoid(f"the log of {self._transactional_id} could not be read: {error}") from error
        self._refuse_void()
        _LOG.info(
            "lease %s opened: fence %.3f s, log %.3f s, %d records",
            self._transactional_id,
            fenced - began,
            time.monotonic() - fenced,
            count,
        )

    async def transact(self, build: Callable[[], Transaction]) -> None:
        """Write what `build` returns: on return it is committed. An empty one writes nothing.

        `build` runs when all earlier transactions are committed, and may change the state that the next one builds on.
        Waits for its turn, then takes some 6 to 30 ms and kafka.transaction_deadline_ms at most.

        Raises LeaseVoid for any doubt, time-outs and refused records included: it may be committed or not. What
        `build` raises passes, as does CancelledError. In every case but success the lease is void.
        """
        async with self._lock:
            self._refuse_void()
            assert self._open, "open the lease first"
            producer = self._producer
            assert producer is not None
            try:
                transaction = build()
                await self._write(producer, transaction)
            except BaseException:
                self._spoil()
                raise

    async def _write(self, producer: AIOKafkaProducer, transaction: Transaction) -> None:
        if not transaction.outputs and not transaction.offsets:
            return
        try:
            async with asyncio.timeout(self._kafka.transaction_deadline_ms / 1000):
                # An open transaction stalls every reader of its topics: wait for what can be waited for before.
                for topic, partition in {(output.topic, output.partition) for output in transaction.outputs}:
                    if partition not in await producer.partitions_for(topic):
                        raise LookupError(f"{topic} has no partition {partition}")  # noqa: TRY301
                await producer.begin_transaction()
                await send_all(producer, transaction.outputs)
                # Not beside the sends: the broker would have the client back off, for a tenth of a second.
                offsets = {at: OffsetAndMetadata(offset, "") for at, offset in transaction.offsets.items()}
                if offsets:
                    await producer.send_offsets_to_transaction(offsets, self._group)
                await producer.commit_transaction()
        except Exception as error:
            raise LeaseVoid(f"a transaction of {self._transactional_id} is in doubt: {told(error)}") from error

    async def close(self) -> None:
        """Give the lease up, after the transaction under way. Later calls of transact raise LeaseVoid.

        Bounded by the deadline of that transaction, or of the opening, and by two of kafka.close_timeout_ms. It does
        not release the epoch: only another opening takes it.
        """
        self._void = True
        async with self._lock:
            self._spoil()
        if self._stopping is not None:
            await asyncio.shield(self._stopping)

    def _refuse_void(self) -> None:
        if self._void:
            raise LeaseVoid(f"the lease {self._transactional_id} is void; open another if the partition is still ours")

    def _spoil(self) -> None:
        """Void the lease, and let its producer stop in a task that close() awaits.

        The stop does not abort an open transaction; the next opening does, or the broker at its own time-out.
        """
        self._void = True
        if self._producer is not None and self._stopping is None:
            stop = stop_client(self._producer, self._kafka.close_timeout_ms / 1000)
            self._stopping = asyncio.create_task(stop, name=f"stop {self._transactional_id}")
