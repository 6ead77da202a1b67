"""The process around a consumer, without a broker."""

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from aiohttp import ClientSession
from aiokafka.errors import KafkaConnectionError

from gpu_consumer.engine.instant import InstantEngine
from gpu_consumer.engine.protocol import Engine, Observed, Peak, Profiled, Ready
from gpu_consumer.gpu.settings import GpuTelemetrySettings
from gpu_consumer.gpu.telemetry import GpuTelemetry
from gpu_consumer.measures import Measures
from gpu_consumer.observations import Observations
from gpu_consumer.service import GpuService
from gpu_consumer.settings import GpuConsumerSettings
from gpu_consumer.store.base import StoreSettings
from schemas.errors import CommandError
from streams.kafka.settings import KafkaSettings
from tests.kafka import POOL, small_catalogue
from tests.scripted import ScriptedEngine

BROKER_AWAY = KafkaSettings(bootstrap_servers="127.0.0.1:1", request_timeout_ms=1000, close_timeout_ms=100)


def service_of(
    folder: Path, engine: Engine, telemetry: GpuTelemetry | None = None, *, health_port: int = 0
) -> GpuService:
    values: dict[str, Any] = {"pool": POOL, "health_port": health_port}
    return GpuService(
        GpuConsumerSettings(**values), BROKER_AWAY, small_catalogue("t"), engine, StoreSettings(url=f"file://{folder}"),
        telemetry,
    )  # fmt: skip


@asynccontextmanager
async def working(service: GpuService, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    """The address of its page, while its consumer works, and takes nothing."""
    begun = asyncio.Event()

    async def work(_: Ready, stop: asyncio.Event) -> None:
        begun.set()
        await stop.wait()

    monkeypatch.setattr(service.consumer, "run", work)
    stop = asyncio.Event()
    running = asyncio.create_task(service.run(stop))
    async with asyncio.timeout(60):
        await begun.wait()
    try:
        yield f"http://127.0.0.1:{service.health.port}"
    finally:
        stop.set()
        await running


class Busy(InstantEngine):
    """In the middle of a batch that nobody waits for any more."""

    killed = False

    async def stop(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self.killed = True


# case AIO-20
async def test_an_engine_that_is_busy_does_not_hold_up_the_end(tmp_path: Path) -> None:
    engine = Busy()
    service = service_of(tmp_path, engine)
    stop = asyncio.Event()
    stop.set()
    async with asyncio.timeout(60):
        await service.run(stop)
    assert engine.killed


async def test_a_broker_that_goes_is_named_in_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service = service_of(tmp_path, InstantEngine())

    async def ends(*_: object) -> None:
        raise ExceptionGroup("tasks", [KafkaConnectionError("gone")])

    monkeypatch.setattr(service.consumer, "run", ends)
    with pytest.raises(CommandError, match=r"^Kafka at 127.0.0.1:1 does not answer: gone; .*KAFKA_BOOTSTRAP_SERVERS"):
        await service.run(asyncio.Event())


async def test_a_taken_port_is_said_with_its_cure(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        service = service_of(tmp_path, InstantEngine(), health_port=taken.getsockname()[1])
        with pytest.raises(CommandError, match="KILN_GPU_HEALTH_PORT"):
            await service.run(asyncio.Event())


class Unwell(GpuTelemetry):
    """Of a card with a fault, without a driver."""

    def __init__(self) -> None:
        super().__init__(GpuTelemetrySettings())

    def start(self) -> None: ...

    def unready(self) -> str | None:
        return "the card is not well"


async def test_a_card_that_is_not_well_takes_its_consumer_out_of_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = service_of(tmp_path, InstantEngine(), Unwell())
    async with working(service, monkeypatch) as page, ClientSession() as client, client.get(f"{page}/readyz") as answer:
        assert (answer.status, await answer.text()) == (503, "the card is not well\n")


class Device(ScriptedEngine):
    """Has memory and makes steps."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()

    async def learn(self, peaks: Sequence[Peak]) -> None:
        raise AssertionError("the broker is away")

    async def profile(self, steps: int) -> None:
        self.asked.set()


async def test_a_trace_that_the_engine_tells_reaches_who_asked_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Device()
    service = service_of(tmp_path, engine)

    async def tell() -> None:
        await engine.asked.wait()
        service.consumer._runner._absorber.absorb(Profiled(b"the trace", 3))

    async with working(service, monkeypatch) as page, ClientSession() as client, asyncio.timeout(60):
        telling = asyncio.create_task(tell())
        async with client.post(f"{page}/profile?steps=3") as answer:
            assert (answer.status, await answer.read()) == (200, b"the trace")
        await telling


async def test_what_the_engine_measured_is_there_to_be_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = service_of(tmp_path, Device())
    async with working(service, monkeypatch):
        service.consumer._runner._absorber.absorb(Observed(Peak("kind", 4, 1 << 30), "hash", 1.5))
        assert service._measures is not None
        noted = service._measures._observations._noted.windows
        assert [(key.kind, key.bucket) for key in noted] == [("kind", 4)]


async def _defect() -> None:
    raise RuntimeError("a defect")


async def test_a_defect_in_what_nobody_waits_for_is_no_silence(tmp_path: Path) -> None:
    service = service_of(tmp_path, InstantEngine())
    assert service._not_alive() is None
    observations = Observations(BROKER_AWAY, "kiln.observations", "a card")
    measures = Measures(cast(Any, None), observations, period_seconds=1)
    observations._task = asyncio.create_task(_defect())
    await asyncio.wait({observations._task})
    await observations.stop()
    service._measures = measures
    assert "a defect" in (service._not_alive() or "")
