"""The hours of a consumer go on being told, and where a defect ends it somebody hears of that."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gpu_consumer.clock import Clock
from gpu_consumer.engine.instant import InstantEngine
from gpu_consumer.metrics import GpuMetrics
from gpu_consumer.spending import Spending
from gpu_consumer.telling import telling
from schemas.pools import Pool
from streams.kafka import periodic
from streams.kafka.settings import KafkaSettings
from tests.unit.gpu_consumer.test_service import service_of, working

KAFKA = KafkaSettings(bootstrap_servers="127.0.0.1:1", request_timeout_ms=1000, close_timeout_ms=100)
POOL = Pool(gpu_product="cpu", vram_bytes=2 << 30, price_usd_per_hour=1, replicas_max=2, partitions=4)


class FakeProducer:
    async def start(self) -> None: ...


async def _stop(*_: Any) -> None: ...


async def _defect_is_found() -> None:
    """The task that tells has come to its end."""
    tasks = {task for task in asyncio.all_tasks() if task.get_name() == "uptime"}
    if tasks:
        await asyncio.wait(tasks, timeout=300)


@pytest.fixture(autouse=True)
def _a_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(periodic, "idempotent_producer", lambda _: FakeProducer())
    monkeypatch.setattr(periodic, "stop_client", _stop)


def _with_one_defect(spending: Spending, monkeypatch: pytest.MonkeyPatch) -> None:
    defects = [RuntimeError("a defect")]

    def news(consumer: str) -> list[Any]:
        if defects:
            raise defects.pop()
        return []

    monkeypatch.setattr(spending, "news", news)


async def test_a_defect_ends_the_telling_and_is_not_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    spending = Spending(GpuMetrics(), Clock(), "default", POOL)
    _with_one_defect(spending, monkeypatch)
    async with telling(KAFKA, "kiln.uptime", spending, "a", period_seconds=0.01) as failure:
        assert failure() is None
        await _defect_is_found()
        assert str(failure()) == "a defect"


async def test_a_telling_that_was_ended_has_no_failure() -> None:
    spending = Spending(GpuMetrics(), Clock(), "default", POOL)
    async with telling(KAFKA, "kiln.uptime", spending, "a", period_seconds=60) as failure:
        pass
    assert failure() is None


async def test_a_service_whose_hours_are_told_no_more_is_not_alive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = service_of(tmp_path, InstantEngine())
    assert service._not_alive() is None
    _with_one_defect(service.consumer.spending, monkeypatch)
    async with working(service, monkeypatch):
        await _defect_is_found()
        assert "the hours of this consumer are told no more (RuntimeError('a defect'))" in (service._not_alive() or "")
