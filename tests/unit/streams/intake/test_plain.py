"""Back-pressure of the plain intake: a partition whose owner is busy is paused, and the others go on."""

import asyncio
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.structs import ConsumerRecord

from admission.arrival import Arrival
from streams.intake.plain import PlainIntake
from streams.kafka.settings import KafkaSettings

BUSY, FREE = TopicPartition("requests", 0), TopicPartition("requests", 1)


def record(tp: TopicPartition, offset: int) -> Any:
    return ConsumerRecord(tp.topic, tp.partition, offset, 0, 1, b"k", b"v", None, 1, 1, ())


class FakeConsumer:
    """Gives one record a partition and poll, unless it is paused."""

    def __init__(self) -> None:
        self.paused: set[TopicPartition] = set()
        self.pauses: list[TopicPartition] = []
        self.next = {BUSY: 0, FREE: 0}
        self.listener: Any = None

    def subscribe(self, _: Any, *, listener: Any) -> None:
        self.listener = listener

    async def start(self) -> None: ...

    def assignment(self) -> set[TopicPartition]:
        return {BUSY, FREE}

    def pause(self, tp: TopicPartition) -> None:
        self.paused.add(tp)
        self.pauses.append(tp)

    def resume(self, tp: TopicPartition) -> None:
        self.paused.discard(tp)

    async def poll(self) -> dict[TopicPartition, list[Any]]:
        await asyncio.sleep(0)
        fetched = {tp: [record(tp, offset)] for tp, offset in self.next.items() if tp not in self.paused}
        for tp in fetched:
            self.next[tp] += 1
        return fetched


class Handler:
    def __init__(self) -> None:
        self.fed: list[tuple[int, int]] = []
        self.room = asyncio.Event()
        self.enough = asyncio.Event()
        self.busy_fed = asyncio.Event()

    async def assigned(self, partitions: AbstractSet[int]) -> None: ...

    async def revoked(self, partitions: AbstractSet[int]) -> None: ...

    async def feed(self, partition: int, arrivals: Iterable[Arrival]) -> None:
        for arrival in arrivals:
            assert arrival.partition == partition
            if partition == BUSY.partition:
                await self.room.wait()
            self.fed.append((partition, arrival.offset))
            if partition == BUSY.partition and arrival.offset > 2:
                self.busy_fed.set()
            if len(self.fed) == 20:
                self.enough.set()


@pytest.fixture
def consumer(monkeypatch: pytest.MonkeyPatch) -> FakeConsumer:
    consumer = FakeConsumer()

    async def poll(_: Any, __: int) -> dict[TopicPartition, list[Any]]:
        return await consumer.poll()

    async def stop(*_: Any) -> None: ...

    monkeypatch.setattr("streams.intake.plain.group_consumer", lambda *_: consumer)
    monkeypatch.setattr("streams.intake.plain.poll", poll)
    monkeypatch.setattr("streams.intake.plain.stop_client", stop)
    return consumer


async def test_a_busy_partition_holds_only_itself(consumer: FakeConsumer) -> None:  # case KQ-05
    intake = PlainIntake(KafkaSettings(bootstrap_servers="127.0.0.1:1"), group="g", topic="requests")
    handler = Handler()
    running = asyncio.create_task(intake.run(handler))
    await asyncio.wait_for(handler.enough.wait(), 60)
    assert {partition for partition, _ in handler.fed} == {FREE.partition}
    assert consumer.paused >= {BUSY}
    assert consumer.pauses == [BUSY], "what is fed at once is fetched on"
    assert consumer.next[BUSY] == 1  # what is taken of it is bounded
    handler.room.set()
    await asyncio.wait_for(handler.busy_fed.wait(), 60)
    await intake.stop()
    await running
    for partition in (0, 1):
        offsets = [offset for number, offset in handler.fed if number == partition]
        assert offsets == sorted(offsets)


async def test_a_revocation_ends_what_waits_for_its_owner(consumer: FakeConsumer) -> None:  # cases AIO-16, AIO-17
    intake = PlainIntake(KafkaSettings(bootstrap_servers="127.0.0.1:1"), group="g", topic="requests")
    handler = Handler()
    running = asyncio.create_task(intake.run(handler))
    await asyncio.wait_for(handler.enough.wait(), 60)
    await consumer.listener.on_partitions_revoked({BUSY})
    consumer.paused.clear()  # as a rebalance does
    handler.room.set()
    await consumer.listener.on_partitions_assigned({BUSY, FREE})
    await asyncio.wait_for(handler.busy_fed.wait(), 60)
    await intake.stop()
    await running
