"""The owner of one requests partition: it opens the lease, and opens it again after doubt while the partition is ours.

    open    a live member? -> fence, fold the logs -> produce again what may not have been -> one transaction
    hold    decide, log, act: see holding.py
    doubt   forget everything, wait longer each time, and open again

It knows nothing of its intake, and takes nothing that the intake says for granted.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Final
from uuid import uuid4

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from admission.state import State
from schemas.errors import told
from streams.backoff import Backoff
from streams.batch import progress
from streams.errors import CannotOpen
from streams.holding import Holding, Surroundings, pause
from streams.inbox import Inbox
from streams.kafka.errors import LeaseVoid, LogUnavailable
from streams.kafka.lease import Lease
from streams.kafka.log import Record
from streams.requests import RequestsReader
from streams.results import ResultsReader

log = logging.getLogger(__name__)

# After any of these nothing remembered is worth anything; another lease may find the cluster well again.
TROUBLE: Final = (LeaseVoid, LogUnavailable, KafkaError, OSError, TimeoutError)
_NOT_OPEN = "its lease is not open yet"


class Owner:
    """One assignment of one partition."""

    def __init__(self, partition: int, around: Surroundings) -> None:
        self.partition = partition
        self.inbox = Inbox(around.settings.queue_max, around.settings.queue_bytes_max)
        self.problem: str | None = _NOT_OPEN
        self.next: int | None = None
        self._around = around
        self._label = str(partition)
        self._stopping = asyncio.Event()
        settings = around.settings
        self._backoff = Backoff(settings.reopen_backoff_seconds_min, settings.reopen_backoff_seconds_max)
        self._trouble_since: float | None = None

    def ask_to_stop(self) -> None:
        """The batch under way ends, another is not begun, and the lease is closed."""
        self._stopping.set()
        self.inbox.shut()

    async def run(self) -> None:
        """Own the partition until asked to stop. Raises CannotOpen where it stays ours and cannot be opened; passes
        StateRefused, LogTruncated and RecordUnreadable, since going on would lose something in silence."""
        while not self._stopping.is_set():
            try:
                if not await self._around.is_live_member():
                    # A woken process may have lost the partition and not know it: opening would fence its successor.
                    raise LeaseVoid("this process is no live member of its group")
                await self._hold()
            except TROUBLE as error:
                self._give_up_after(error)
                await pause(self._stopping, self._backoff.next())
            finally:
                self.inbox.shut()

    async def _hold(self) -> None:
        """One lease, from its opening to its end."""
        around, catalogue = self._around, self._around.declared.catalogue
        lease = Lease(
            around.kafka,
            transactional_id=catalogue.admission_transactional_id(self.partition),
            group=catalogue.admission_group,
            log=[TopicPartition(topic, self.partition) for topic in (catalogue.tenants, catalogue.decisions)],
        )
        async with AsyncExitStack() as stack:
            stack.push_async_callback(lease.close)
            state = await self._open(lease)
            results = ResultsReader(around.kafka, catalogue.results, self.partition, state.results_next)
            await stack.enter_async_context(results)
            requests = RequestsReader(around.kafka, catalogue.requests, self.partition)
            await stack.enter_async_context(requests)
            self.problem, self.next = None, state.next
            teller = around.telling.begin(state)
            stack.callback(around.telling.end, teller)
            holding = Holding(around, lease, state, requests, results, self.inbox, teller, self._stopping, self._moved)
            await holding.serve()

    async def _open(self, lease: Lease) -> State:
        """Fence, fold, produce again, and say where we are: unconditionally, so that lag is right after a reset too."""
        around, catalogue = self._around, self._around.declared.catalogue
        began = time.monotonic()
        state = State(self.partition, around.declared.limits)
        await lease.open(_folding_into(state, catalogue.tenants), _unneeded_by(state, catalogue.decisions))
        # In a thread: for 100,000 names it takes a second or more, and a loop that is blocked for as long as a session
        # loses all of its partitions, opens them again, and so on for ever.
        again = await asyncio.to_thread(
            state.opened,
            uuid4,
            log_end=await around.cluster.end(catalogue.requests, self.partition),
            committed=await around.cluster.committed(self.partition),
            results_end=await around.cluster.end(catalogue.results, self.partition),
            now_ms=around.now_ms(),
            accept_loss=around.settings.accept_loss,
        )
        await around.emission.emit(again, partition=self.partition)
        state.emitted(state.mark())
        await lease.transact(lambda: progress(state, catalogue))
        around.metrics.count("lease_openings_total", partition=self._label)
        log.info(
            "requests[%d] opened in %.3f s: next %d, %d decisions produced again",
            self.partition, time.monotonic() - began, state.next, len(again),
        )  # fmt: skip
        return state

    def _moved(self, next_offset: int) -> None:
        """A pass ended well: only that ends a trouble, since a batch may be what voids every lease it meets."""
        self.next = next_offset
        self._trouble_since = None
        self._backoff.reset()
        self._around.metrics.set("next_offset", next_offset, partition=self._label)

    def _give_up_after(self, error: Exception) -> None:
        """Note the trouble. Raises CannotOpen once it has lasted too long."""
        if self._stopping.is_set():
            return  # the partition has another owner, and being fenced by it is as it should be
        why = told(error)
        now = time.monotonic()
        self._trouble_since = self._trouble_since or now
        self.problem = f"its lease must be opened again: {why}"
        self._around.metrics.count("lease_voids_total", partition=self._label)
        log.warning("requests[%d]: %s", self.partition, self.problem)
        if now - self._trouble_since > self._around.settings.reopen_seconds_max:
            raise CannotOpen(self.partition, now - self._trouble_since, why) from error


def _folding_into(state: State, tenants: str) -> Callable[[Record], None]:
    def fold(record: Record) -> None:
        if record.topic == tenants:
            state.fold_tenants(record.key or b"", record.value)
        else:
            state.fold_decision(record.key or b"", record.headers, record.value)

    return fold


def _unneeded_by(state: State, decisions: str) -> Callable[[Record], bool]:
    """Decisions are kept for days and needed for an hour."""

    def unneeded(record: Record) -> bool:
        return record.topic == decisions and state.is_over(record.headers)

    return unneeded
