"""The demand of owned partitions goes on being told."""

import asyncio
from typing import Any

import pytest

from schemas.demand import Demand, decode_demand
from streams.demand import Teller
from streams.kafka import periodic
from streams.kafka.settings import KafkaSettings
from streams.settings import AdmissionServiceSettings
from streams.telling import Telling
from tests.unit.admission.scene import HOME, Partition, request

KAFKA = KafkaSettings(bootstrap_servers="127.0.0.1:1")
SETTINGS = AdmissionServiceSettings(demand_seconds=0.01, demand_seconds_max=0.1)


class FakeProducer:
    def __init__(self) -> None:
        self.told: asyncio.Queue[Demand] = asyncio.Queue()

    async def start(self) -> None: ...

    async def send(self, topic: str, value: bytes, *, key: bytes) -> asyncio.Future[None]:
        self.told.put_nowait(decode_demand(value))
        done = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done


async def test_a_figure_that_cannot_be_told_is_no_end_of_the_telling(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody awaits the task: were it gone, others would count this partition as silent for ever."""
    producer, partition = FakeProducer(), Partition()
    partition.send(request())
    news, broken = Teller.news, [1, 2, 3]

    def news_of(self: Teller, *arguments: Any) -> Demand | None:
        if broken:
            broken.pop()
            raise ValueError("a sum that is no number")
        return news(self, *arguments)

    async def stop(*_: Any) -> None: ...

    monkeypatch.setattr(periodic, "idempotent_producer", lambda _: producer)
    monkeypatch.setattr(periodic, "stop_client", stop)
    monkeypatch.setattr(Teller, "news", news_of)
    async with Telling(KAFKA, "kiln.observations", SETTINGS, lambda _: None) as telling:
        telling.begin(partition.state)
        told = await asyncio.wait_for(producer.told.get(), 30)
    assert (told.partition, told.waiting) == (HOME, {"default": {"standard": 2.0}})
    assert len([each for each in caplog.records if "not published" in each.message]) == 1


async def test_a_defect_ends_the_telling_and_is_not_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    def defect(*_: Any) -> None:
        raise RuntimeError("a defect")

    async def stop(*_: Any) -> None: ...

    monkeypatch.setattr(periodic, "idempotent_producer", lambda _: FakeProducer())
    monkeypatch.setattr(periodic, "stop_client", stop)
    monkeypatch.setattr(Teller, "news", defect)
    async with Telling(KAFKA, "kiln.observations", SETTINGS, lambda _: None) as telling:
        assert telling.failure is None
        telling.begin(Partition().state)
        assert telling._task is not None
        await asyncio.wait({telling._task}, timeout=300)
    assert str(telling.failure) == "a defect"
