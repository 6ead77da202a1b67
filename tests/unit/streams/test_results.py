"""Results as they come back, and when all of them have."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition

from schemas.codec import encode
from streams import results as module
from streams.kafka.settings import KafkaSettings
from streams.results import ResultsReader
from tests.unit.admission.scene import Partition, accepted, failed, request


class FakeConsumer:
    """Holds `ready` records beyond `position`; the broker's last answer told `stable`."""

    def __init__(self, ready: Sequence[Any], stable: int | None) -> None:
        self.ready = list(ready)
        self.at = 0
        self.stable = stable

    def last_stable_offset(self, _: Any) -> int | None:
        return self.stable

    async def position(self, _: Any) -> int:
        return self.at

    async def getmany(self, *, timeout_ms: int) -> dict[Any, list[Any]]:
        assert timeout_ms == 0
        taken, self.ready = self.ready, []
        self.at = taken[-1].offset + 1 if taken else self.at
        return {taken[0].tp: taken} if taken else {}


def reader(monkeypatch: pytest.MonkeyPatch, number: int, stable: int | None) -> tuple[ResultsReader, FakeConsumer]:
    partition = Partition()
    job = accepted(partition.send(request())).job_id
    value = encode(failed(partition.state, job, 1.0))
    consumer = FakeConsumer([], stable)
    monkeypatch.setattr(module, "log_consumer", lambda *_, **__: consumer)
    made = ResultsReader(KafkaSettings(bootstrap_servers="nowhere:1"), "kiln.results", 1, 0)
    at = TopicPartition("kiln.results", 1)
    consumer.ready = [SimpleNamespace(tp=at, offset=offset, value=value) for offset in range(number)]
    return made, consumer


async def test_all_is_taken_once_nothing_is_left_of_what_the_broker_told(monkeypatch: pytest.MonkeyPatch) -> None:
    results, consumer = reader(monkeypatch, 5, stable=9)

    async def take() -> tuple[list[int], bool]:
        return [offset for offset, _ in await results.take(3)], results.caught_up

    assert await take() == ([0, 1, 2], False), "two have arrived and are not taken"
    assert await take() == ([3, 4], False), "four more are committed"
    consumer.at = 9  # over markers, which no record shows
    assert await take() == ([], True)
    consumer.stable = 12
    assert await take() == ([], False)


async def test_before_the_broker_has_answered_nobody_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    results, consumer = reader(monkeypatch, 0, stable=None)
    for stable, known in ((None, False), (0, True)):
        consumer.stable = stable
        await results.take(3)
        assert results.caught_up is known
