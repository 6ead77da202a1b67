"""Whatever becomes of topic progress, who tells it is not held up and does not fail."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from aiokafka.errors import KafkaConnectionError

from gpu_consumer import telling_steps as module
from gpu_consumer.engine.instant import InstantEngine
from gpu_consumer.metrics import GpuMetrics
from gpu_consumer.telling_steps import telling_steps
from schemas.progress import ProgressEvent, decode_progress
from streams.kafka import periodic
from streams.kafka.sending import Output
from streams.kafka.settings import KafkaSettings
from tests.admission import eventually
from tests.kafka import small_catalogue
from tests.unit.gpu_consumer.test_service import service_of, working
from tests.unit.gpu_consumer.work import EPOCH

KAFKA = KafkaSettings(bootstrap_servers="127.0.0.1:1", request_timeout_ms=1000, close_timeout_ms=100)
CATALOGUE = small_catalogue("t")
EVENT = ProgressEvent(
    tenant="green", request_id="r", job_id="j", state="step", step=3, steps=8, pool="a", config_hash="h", at=EPOCH
)


class FakeBroker:
    """Takes what it is sent, fails at it, or does not answer."""

    def __init__(self) -> None:
        self.taken: list[Output] = []
        self.failures: list[Exception] = []
        self.hangs = False
        self.starts = 0
        self.asked = asyncio.Event()

    async def start(self) -> None:
        self.starts += 1

    async def take(self, _: Any, outputs: Sequence[Output]) -> None:
        sent = list(outputs)
        if not sent:
            return
        self.asked.set()
        if self.hangs:
            await asyncio.Event().wait()
        if self.failures:
            raise self.failures.pop()
        self.taken += sent


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> FakeBroker:
    made = FakeBroker()

    async def stop(*_: Any) -> None: ...

    monkeypatch.setattr(module, "best_effort_producer", lambda _: made)
    monkeypatch.setattr(module, "send_all", made.take)
    monkeypatch.setattr(module, "_RETRY_SECONDS", 0.0)
    monkeypatch.setattr(periodic, "stop_client", stop)
    return made


class News:
    def __init__(self, *events: ProgressEvent) -> None:
        self.events = list(events)
        self.metrics = GpuMetrics()
        self.looks = 0

    def __call__(self) -> list[ProgressEvent]:
        self.looks += 1
        events, self.events = self.events, []
        return events

    def telling(self, period_seconds: float = 0.001) -> AbstractAsyncContextManager[None]:
        return telling_steps(KAFKA, CATALOGUE, self, self.metrics, period_seconds=period_seconds)

    def counted(self, outcome: str) -> float:
        return self.metrics.registry.get_sample_value("kiln_gpu_progress_events_total", {"outcome": outcome}) or 0.0

    async def until(self, sent: int, dropped: int = 0) -> None:
        def so() -> bool:
            return (self.counted("sent"), self.counted("dropped")) == (sent, dropped)

        await eventually(so, what=f"{sent} sent, {dropped} dropped")


async def test_an_event_goes_to_the_partition_of_its_tenant(broker: FakeBroker) -> None:
    news = News(EVENT)
    async with news.telling():
        await news.until(sent=1)
    (output,) = broker.taken
    assert output.topic == "t.progress"
    assert (output.partition, output.key, output.headers) == (1, b"green", ())
    assert decode_progress(output.value or b"") == EVENT


async def test_what_a_broker_does_not_take_is_dropped_and_counted(broker: FakeBroker) -> None:
    news = News(EVENT, EVENT)
    broker.failures.append(KafkaConnectionError())
    async with news.telling():
        await news.until(sent=0, dropped=2)
        news.events.append(EVENT)
        await news.until(sent=1, dropped=2)
    assert (len(broker.taken), broker.starts) == (1, 2)


async def test_what_goes_on_being_dropped_is_complained_of_once(
    broker: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    news = News(EVENT)
    broker.failures += [KafkaConnectionError(), KafkaConnectionError()]
    async with news.telling():
        await news.until(sent=0, dropped=1)
        looks = news.looks
        await eventually(lambda: news.looks > looks + 2, what="looks that find nothing")
        news.events.append(EVENT)
        await news.until(sent=0, dropped=2)
    assert len([record for record in caplog.records if record.levelno == logging.WARNING]) == 1


async def test_a_broker_that_does_not_answer_is_not_waited_for_at_the_end(broker: FakeBroker) -> None:
    news = News(EVENT)
    broker.hangs = True
    async with news.telling():
        await broker.asked.wait()
    assert news.counted("dropped") == 1


async def test_a_defect_ends_the_telling_alone_and_is_not_silent(
    broker: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    def defect() -> list[ProgressEvent]:
        raise RuntimeError("a defect")

    with caplog.at_level(logging.ERROR):
        async with telling_steps(KAFKA, CATALOGUE, defect, GpuMetrics(), period_seconds=0.001):
            (task,) = (task for task in asyncio.all_tasks() if task.get_name() == "steps")
            await asyncio.wait({task}, timeout=60)
    assert [record.message for record in caplog.records] == [
        "how far jobs are is told no more; this is a defect, and a restart mends it"
    ]


async def test_at_0_seconds_nobody_is_asked(broker: FakeBroker) -> None:
    news = News(EVENT)
    async with news.telling(period_seconds=0):
        assert not [task for task in asyncio.all_tasks() if task.get_name() == "steps"]
    assert (news.events, broker.starts) == ([EVENT], 0)


async def test_a_service_tells_it_while_its_consumer_works(
    broker: FakeBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, news = service_of(tmp_path, InstantEngine()), News(EVENT)
    monkeypatch.setattr(service.consumer, "steps", news)
    async with working(service, monkeypatch):
        await broker.asked.wait()
    assert service._not_alive() is None
