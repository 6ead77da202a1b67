"""The gate as a process: one group over the topics of all tenants that have one.

Poll, write to requests, await every acknowledgement, commit, poll again: nothing is taken before the former is written,
which is the backpressure. A record that is passed on twice is a repeat to admission, silent and free, so at least
once is enough and there are no transactions.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AsyncExitStack
from itertools import product
from typing import get_args

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import IllegalStateError, KafkaError

from schemas.decision import DeadLetterReason
from schemas.errors import told
from schemas.topics import Catalogue
from streams.gate.metrics import GateMetrics
from streams.gate.passing import in_turns, written
from streams.gate.settings import GateSettings
from streams.health import HealthServer
from streams.kafka.admin import require_topics
from streams.kafka.clients import group_consumer, stop_client
from streams.kafka.log import Record, bounds, poll
from streams.kafka.patient import PatientProducer
from streams.kafka.settings import KafkaSettings
from streams.progress import ProgressWatch

log = logging.getLogger(__name__)
_POLL_MS = 100  # how soon a stop is noticed


class GateService:
    """One process of the gate. Any number may run: the group spreads the topics over them."""

    def __init__(self, settings: GateSettings, kafka: KafkaSettings, catalogue: Catalogue) -> None:
        assert catalogue.own_topics, "no tenant has a topic of its own"
        self.settings = settings
        self.metrics = GateMetrics()
        self._kafka = kafka
        self._catalogue = catalogue
        for tenant, reason in product(catalogue.own_topics, get_args(DeadLetterReason)):
            self.metrics.count("dead_letters_total", 0, tenant=tenant, reason=reason)  # so that the first is a rise
        self._tenants = {catalogue.tenant_requests(tenant): tenant for tenant in catalogue.own_topics}
        self._producer = PatientProducer(
            kafka,
            timeout_seconds=settings.send_timeout_seconds,
            backoff_seconds_max=settings.send_backoff_seconds_max,
        )
        self._watch: ProgressWatch[TopicPartition] = ProgressWatch(settings.stall_seconds, _name)
        self._committed: dict[TopicPartition, int] = {}
        self._ends_at = time.monotonic()
        self._waiting: str | None = "the gate is starting"
        self._failing: str | None = None
        self._silence: str | None = None
        self._fresh: list[TopicPartition] = []
        self.health = HealthServer(
            settings.health_port,
            live=lambda: self._watch.stalled(time.monotonic()),
            ready=self.not_ready,
            registry=self.metrics.registry,
            host=settings.health_host,
            setting="KILN_GATE_HEALTH_PORT",
        )

    def not_ready(self) -> str | None:
        """What keeps requests from being passed on here, or would if one came."""
        return self._waiting or self._failing or self._silence

    async def run(self, stop: asyncio.Event) -> None:
        """Pass requests on until `stop` is set; what is on its way then has settings.stop_grace_seconds.

        Raises LogUnavailable where a topic is missing or the client cannot go on, KafkaError where no broker answers.
        """
        async with AsyncExitStack() as stack:
            await self.health.start()
            stack.push_async_callback(self.health.stop)
            await require_topics(self._kafka, [*self._tenants, self._catalogue.requests, self._catalogue.dead_letters])
            stack.push_async_callback(self._producer.close)
            consumer = group_consumer(self._kafka, self._catalogue.gate_group)
            stack.push_async_callback(stop_client, consumer, self._kafka.close_timeout_ms / 1000)
            consumer.subscribe(sorted(self._tenants), listener=_Listener(self))
            await consumer.start()
            working = asyncio.create_task(self._work(consumer, stop), name="gate")
            looking = asyncio.create_task(self._look_at_lag(consumer), name="look at lag")
            try:
                await self._until(stop, working, looking)
            finally:
                for task in (working, looking):
                    task.cancel()
                await asyncio.wait({working, looking})

    async def _until(self, stop: asyncio.Event, working: asyncio.Task[None], looking: asyncio.Task[None]) -> None:
        stopped = asyncio.create_task(stop.wait(), name="stop")
        try:
            await asyncio.wait({working, looking, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if stopped.done():
                self._waiting = "the gate is stopping"
                await asyncio.wait({working}, timeout=self.settings.stop_grace_seconds)
            for task in (working, looking):
                if task.done():
                    task.result()
            if not working.done():
                log.warning("what is on its way was not acknowledged in time; another gate sends it again")
        finally:
            stopped.cancel()

    async def _work(self, consumer: AIOKafkaConsumer, stop: asyncio.Event) -> None:
        while not stop.is_set():
            await self._look_for_a_loss(consumer)
            fetched = await poll(consumer, _POLL_MS)
            for records in in_turns(fetched, self.settings.batch_max):
                await self._pass(records)
                done = {TopicPartition(record.topic, record.partition): record.offset + 1 for record in records}
                await self._commit(consumer, done)
                if stop.is_set():
                    return
            if not fetched:
                # Nothing is under way, so the positions are true (case AIO-26). They are past the markers of
                # transactions, too, which would be a lag for ever (case KQ-13).
                await self._commit(consumer, await _positions(consumer))

    async def _pass(self, records: Sequence[Record]) -> None:
        counts: Counter[tuple[str, str | None]] = Counter()
        outputs = []
        for record in records:
            tenant = self._tenants[record.topic]
            output, reason = written(record, tenant, self._catalogue)
            outputs.append(output)
            counts[tenant, reason] += 1
        await self._producer.write(outputs, self._failed)
        self._failing = None
        for (tenant, reason), number in counts.items():
            if reason is None:
                self.metrics.count("passed_total", number, tenant=tenant)
            else:
                self.metrics.count("dead_letters_total", number, tenant=tenant, reason=reason)

    async def _commit(self, consumer: AIOKafkaConsumer, offsets: Mapping[TopicPartition, int]) -> None:
        moved = {tp: at for tp, at in offsets.items() if self._committed.get(tp) != at}
        if not moved:
            return
        try:
            await consumer.commit(moved)
        except (IllegalStateError, KafkaError) as error:
            # The next commit says more, or the partition has another owner, who passes the same on again.
            log.warning("offsets were not committed: %s", told(error))
        else:
            self._committed |= moved

    def _failed(self, error: Exception) -> None:
        self._failing = f"requests cannot be written ({told(error)}); trying again"
        self.metrics.count("retries_total")

    def assigned(self, partitions: AbstractSet[TopicPartition]) -> None:
        for tp in self._committed:  # one that left would freeze at its last lag; one that stayed comes back
            self.metrics.forget("lag", topic=tp.topic, partition=str(tp.partition))
        self._committed.clear()
        self._fresh = sorted(partitions)
        self._waiting = None

    async def _look_for_a_loss(self, consumer: AIOKafkaConsumer) -> None:
        """Say what left a topic before anybody read it: the client begins at what is left, in silence."""
        fresh, self._fresh = self._fresh, []
        first, _ = await bounds(consumer, fresh) if fresh else ({}, {})
        for tp, oldest in first.items():
            committed = await consumer.committed(tp)
            if committed is not None and committed < oldest:
                self.metrics.count("expired_total", oldest - committed, tenant=self._tenants[tp.topic])
                log.error(
                    "%s begins at %d and %d was to be passed on next: what is between has expired; raise "
                    "KILN_TOPICS_REQUESTS_RETENTION_MS", _name(tp), oldest, committed,
                )  # fmt: skip

    async def _look_at_lag(self, consumer: AIOKafkaConsumer) -> None:
        while True:
            await asyncio.sleep(self.settings.refresh_seconds)
            mine = consumer.assignment()
            asked = mine or {TopicPartition(next(iter(self._tenants)), 0)}  # another's: it shows that a broker answers
            try:
                ends = await consumer.end_offsets(sorted(asked))
                self._ends_at, self._silence = time.monotonic(), None
                self._look({tp: ends[tp] for tp in mine})
            except (KafkaError, OSError) as error:
                self._silence = f"the broker does not answer ({told(error)})"
                self._watch.keep(set())  # a broker that is down is not this process's fault: a restart does not help
            now = time.monotonic()
            self.metrics.set("stalled_seconds", self._watch.stalled_seconds(now))
            self.metrics.set("view_age_seconds", now - self._ends_at, view="ends")

    def _look(self, ends: Mapping[TopicPartition, int]) -> None:
        waits = self._waiting or self._failing
        for tp, end in ends.items():
            at = self._committed.get(tp)
            if at is not None:
                self.metrics.set("lag", max(0, end - at), topic=tp.topic, partition=str(tp.partition))
            self._watch.look(tp, -1 if at is None else at, end - (at or 0), waits, time.monotonic())
        self._watch.keep(set(ends))


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, gate: GateService) -> None:
        self._gate = gate

    async def on_partitions_revoked(self, revoked: AbstractSet[TopicPartition]) -> None:
        """What is on its way is written by both, which is as good."""

    async def on_partitions_assigned(self, assigned: AbstractSet[TopicPartition]) -> None:
        self._gate.assigned(assigned)


async def _positions(consumer: AIOKafkaConsumer) -> dict[TopicPartition, int]:
    try:
        return {tp: await consumer.position(tp) for tp in consumer.assignment()}
    except IllegalStateError:
        return {}  # a partition left meanwhile


def _name(at: TopicPartition) -> str:
    return f"{at.topic}[{at.partition}]"
