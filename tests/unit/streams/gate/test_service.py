"""What the gate shows of topics that come and go, and of a broker that does."""

import asyncio
import time
from collections.abc import Callable
from typing import Any, cast

from aiokafka import TopicPartition
from aiokafka.errors import (
    CommitFailedError,
    IllegalStateError,
    KafkaConnectionError,
    UnknownTopicOrPartitionError,
)

from schemas.pools import Pools
from schemas.topics import Catalogue, TopicSettings
from streams.gate.service import GateService
from streams.gate.settings import GateSettings
from streams.kafka.settings import KafkaSettings

TENANT = "atelier"


class Consumer:
    async def commit(self, offsets: dict[TopicPartition, int]) -> None:
        pass


async def test_the_lag_of_a_topic_that_another_gate_has_now_is_not_shown() -> None:
    catalogue = Catalogue(TopicSettings.model_construct(), Pools(pools={}), (TENANT,))
    gate = GateService(GateSettings(), KafkaSettings(bootstrap_servers="127.0.0.1:1"), catalogue)
    consumer: Any = Consumer()
    stays, leaves = (TopicPartition(catalogue.tenant_requests(TENANT), number) for number in (0, 1))

    def lag(tp: TopicPartition) -> float | None:
        labels = {"topic": tp.topic, "partition": str(tp.partition)}
        found: float | None = gate.metrics.registry.get_sample_value("kiln_gate_lag", labels)
        return found

    gate.assigned({stays, leaves})
    await gate._commit(consumer, {stays: 3, leaves: 4})
    gate._look({stays: 5, leaves: 5})
    assert (lag(stays), lag(leaves)) == (2, 1)
    gate.assigned({stays})
    await gate._commit(consumer, {stays: 4})
    gate._look({stays: 5})
    assert (lag(stays), lag(leaves)) == (1, None)


async def test_a_commit_that_failed_is_made_up_for_by_the_next() -> None:
    """Cases FST-26, while a leader changes, and AIO-19, while the group does: what has left is not said any more by who
    had it."""
    catalogue = Catalogue(TopicSettings.model_construct(), Pools(pools={}), (TENANT,))
    gate = GateService(GateSettings(), KafkaSettings(bootstrap_servers="127.0.0.1:1"), catalogue)
    stays, leaves = (TopicPartition(catalogue.tenant_requests(TENANT), number) for number in (0, 1))
    said: list[dict[TopicPartition, int]] = []
    fates: list[Exception | None] = [UnknownTopicOrPartitionError(), CommitFailedError(), IllegalStateError(), None]

    class Fated:
        async def commit(self, offsets: dict[TopicPartition, int]) -> None:
            said.append(dict(offsets))
            if fates and (fate := fates.pop(0)) is not None:
                raise fate

    consumer: Any = Fated()
    gate.assigned({stays, leaves})
    await gate._commit(consumer, {stays: 3})
    await gate._commit(consumer, {stays: 3, leaves: 7})
    gate.assigned({stays})
    await gate._commit(consumer, {stays: 3})
    await gate._commit(consumer, {stays: 5})
    await gate._commit(consumer, {stays: 5})
    assert said == [{stays: 3}, {stays: 3, leaves: 7}, {stays: 3}, {stays: 5}]


class LeavingBroker:
    """Answers once, and then no more."""

    def __init__(self, at: TopicPartition, told: Callable[[], tuple[float | None, str | None]]) -> None:
        self.seen: list[tuple[float | None, str | None]] = []
        self.over = asyncio.Event()
        self._at = at
        self._told = told

    def assignment(self) -> set[TopicPartition]:
        return {self._at}

    async def end_offsets(self, asked: list[TopicPartition]) -> dict[TopicPartition, int]:
        self.seen.append(self._told())
        if len(self.seen) > 1:
            if len(self.seen) > 2:
                self.over.set()
            raise KafkaConnectionError("no broker answers")
        return dict.fromkeys(asked, 5)


async def test_what_stands_is_told_while_a_broker_says_so() -> None:
    """Of a broker that is down nobody knows what stands: the last figure must not go on being told. That nobody
    answers is told instead, also where nothing is on its way (case AIO-13)."""
    catalogue = Catalogue(TopicSettings.model_construct(), Pools(pools={}), (TENANT,))
    kafka = KafkaSettings(bootstrap_servers="127.0.0.1:1")
    settings = GateSettings(refresh_seconds=0.05)
    gate = GateService(settings, kafka, catalogue)
    at = TopicPartition(catalogue.tenant_requests(TENANT), 0)
    gate.assigned({at})
    gate._committed[at] = 3
    gate._watch.look(at, 3, lag=2, waiting_for=None, now=time.monotonic() - 1000)
    stalled = "kiln_gate_stalled_seconds"
    broker = LeavingBroker(at, lambda: (gate.metrics.registry.get_sample_value(stalled), gate.not_ready()))
    looking = asyncio.create_task(gate._look_at_lag(cast(Any, broker)))
    await asyncio.wait_for(broker.over.wait(), 60)
    looking.cancel()
    before, (standing, well), away = broker.seen[:3]
    assert (before, away) == ((0, None), (0, "the broker does not answer (no broker answers)"))
    assert ((standing or 0) >= 1000, well) == (True, None)
    age = gate.metrics.registry.get_sample_value("kiln_gate_view_age_seconds", {"view": "ends"})
    assert (age or 0) > settings.refresh_seconds / 2, "as old as the last answer"
