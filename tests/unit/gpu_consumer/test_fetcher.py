"""What the client cannot deliver, without a broker."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import RecordTooLargeError

from gpu_consumer.fetcher import Fetcher
from gpu_consumer.index import Index
from gpu_consumer.intake import Cursor
from gpu_consumer.settings import GpuConsumerSettings
from schemas.request import LANES, Lane
from streams.kafka.settings import KafkaSettings
from tests.kafka import POOL, small_catalogue


class Client:
    """Stands where the fetcher puts it."""

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.position = 0

    def assignment(self) -> set[TopicPartition]:
        return {self.partition}

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self.position = offset


class Bench:
    def __init__(self) -> None:
        kafka = KafkaSettings(bootstrap_servers="127.0.0.1:1")
        catalogue = small_catalogue("t")
        self.index = Index(kafka, catalogue, POOL, 0)
        self.index._cursors = {lane: Cursor(5) for lane in LANES}
        for lane in LANES:
            self.index.ledger(lane).finish_range(0, 5)
        self.passed_over: list[int] = []
        self.unreadable: list[int] = []
        self.fetcher = Fetcher(
            GpuConsumerSettings(pool=POOL), kafka, catalogue,
            index_of=lambda _: self.index, assigned=lambda *_: None, room=lambda _: 9, take=lambda *_: None,
            pass_over=self._pass_over, unreadable=self._unreadable,
        )  # fmt: skip
        self.at = self.index.partition("standard")
        self.client: Any = Client(self.at)
        self.replaced, self.fetcher._consumer = self.fetcher._consumer, self.client

    def _pass_over(self, index: Index, lane: Lane, offset: int) -> None:
        index.skip(lane, offset)
        self.passed_over.append(offset)

    def _unreadable(self, index: Index, lane: Lane, offset: int, message: str) -> None:
        assert "larger than the fetch limit" in message
        self.unreadable.append(offset)

    def too_large(self, offset: int) -> None:
        self.client.position = offset + 1
        self.fetcher._too_large(RecordTooLargeError("too large", self.at, offset, 8 << 20))


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    made = Bench()
    yield made
    await made.replaced.stop()


# case AIO-26
async def test_a_record_too_large_to_fetch_is_passed_on_once(bench: Bench) -> None:
    bench.too_large(5)
    assert (bench.unreadable, bench.client.position) == ([5], 6)


# case AIO-26
async def test_a_record_too_large_behind_a_hole_does_not_stop_its_lane(bench: Bench) -> None:
    bench.too_large(7)
    assert (bench.unreadable, bench.client.position) == ([], 5), "the hole is not proven yet"
    bench.too_large(7)
    assert (bench.passed_over, bench.unreadable, bench.client.position) == ([7], [7], 8)


# case AIO-26
async def test_a_record_too_large_that_is_finished_is_not_finished_again(bench: Bench) -> None:
    bench.index.ledger("standard").finish(6)
    bench.index.advance("standard", 5)
    bench.too_large(6)
    assert (bench.unreadable, bench.client.position) == ([], 7)
