"""What KEDA hears of a pool through a life, from a real broker, by a client of its protocol."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest

from gpu_consumer.ledger import Ledger
from infra.scaler import externalscaler_pb2 as pb
from infra.scaler import figures
from infra.scaler.externalscaler_pb2_grpc import ExternalScalerStub
from infra.scaler.groups import Groups
from infra.scaler.service import ScalerService
from infra.scaler.settings import ScalerSettings
from schemas.catalogue import ConfigCatalogue
from schemas.codec import encode
from schemas.observation import Observation
from tests.integration.gpu_pool import GpuPool, eventually, work_item
from tests.kafka import POOL
from tests.scripted import ScriptedEngine

_CERTIFICATES = Path(__file__).parents[1] / "contract" / "certificates"
TARGET = 60.0
PRICE = 50.0


class Keda:
    """What KEDA's client does, without its polling."""

    def __init__(self, channel: grpc.aio.Channel, **metadata: str) -> None:
        values = {"pool": POOL, "targetGpuSeconds": f"{TARGET:g}", "scalerAddress": "kiln-scaler:8085"}
        self.ref = pb.ScaledObjectRef(name="kiln-gpu-a", namespace="kiln", scalerMetadata=values | metadata)
        self.stub: Any = ExternalScalerStub(channel)  # type: ignore[no-untyped-call]
        self.pushed: list[bool] = []

    async def spec(self) -> pb.MetricSpec:
        (spec,) = (await self.stub.GetMetricSpec(self.ref)).metricSpecs
        assert isinstance(spec, pb.MetricSpec)
        return spec

    async def value(self) -> float:
        (told,) = (
            await self.stub.GetMetrics(pb.GetMetricsRequest(scaledObjectRef=self.ref, metricName=f"gpu-seconds-{POOL}"))
        ).metricValues
        return float(told.metricValueFloat)

    async def active(self) -> bool:
        return bool((await self.stub.IsActive(self.ref)).result)

    async def listen(self) -> None:
        async for push in self.stub.StreamIsActive(self.ref):
            self.pushed.append(push.result)


def _channel(at: str, certificate: Path | None) -> grpc.aio.Channel:
    if certificate is None:
        return grpc.aio.insecure_channel(at)
    return grpc.aio.secure_channel(at, grpc.ssl_channel_credentials(certificate.read_bytes()))


@asynccontextmanager
async def scaler(pool: GpuPool, **settings: Any) -> AsyncIterator[tuple[ScalerService, Keda]]:
    """Running, with a client whose push stream is open."""
    values: dict[str, Any] = {"port": 0, "health_port": 0, "look_seconds": 0.2, "age_seconds_max": 600.0}
    values["stop_grace_seconds"] = 1.0
    values |= settings
    service, stop = (
        ScalerService(ScalerSettings(**values), pool.kafka, pool.catalogue, ConfigCatalogue([])),
        asyncio.Event(),
    )
    running = asyncio.create_task(service.run(stop))
    await eventually(lambda: service.port is not None or running.done(), "the scaler serves")
    async with _channel(f"127.0.0.1:{service.port}", settings.get("tls_certfile")) as channel:
        keda = Keda(channel)
        listening = asyncio.create_task(keda.listen())
        await eventually(lambda: service.not_ready() is None or running.done(), "the scaler knows its pools")
        try:
            yield service, keda
        finally:
            stop.set()
            await running
            await listening  # the stream is ended, not broken


async def test_the_life_of_a_pool(pool: GpuPool) -> None:
    """Empty, backlog, in flight, drained; case KEDA-02: a new group of an empty pool is no work."""
    engine = ScriptedEngine()
    engine.gate.clear()
    items = [work_item(f"job{n}", price_gpu_seconds=PRICE) for n in range(6)]
    async with scaler(pool) as (service, keda):
        await eventually(lambda: keda.pushed == [False], "KEDA is told how it is")
        assert (await keda.value(), await keda.active()) == (0.0, False)
        spec = await keda.spec()
        assert (spec.metricName, spec.targetSizeFloat) == (f"gpu-seconds-{POOL}", TARGET)

        await pool.produce(items)
        await eventually(lambda: keda.pushed == [False, True], "the pool is woken")

        async def all_read() -> bool:
            return await keda.value() == 6 * PRICE

        await eventually(all_read, "every job is in the value")
        assert await keda.active()

        async with pool.consumer(engine):
            await eventually(lambda: sum(map(len, engine.runs)) >= 4, "a batch runs")

            async def running() -> bool:
                signal = service.figures.current(POOL)
                return signal is not None and signal.running > 0 and 0 < await keda.value() < 6 * PRICE

            await eventually(running, "what runs is told of the ledger's marks, and some of it is done")
            assert await keda.active()
            engine.gate.set()
            await pool.wait_until_done()

            async def nothing() -> bool:
                return await keda.value() == 0.0

            await eventually(nothing, "drained is zero")
        await eventually(lambda: keda.pushed == [False, True, False], "the pool may sleep")
        assert not await keda.active()


async def test_the_first_work_is_pushed_when_it_is_read_and_not_at_the_next_look(
    pool: GpuPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class OneLook(Groups):
        def __init__(self, *sources: Any) -> None:
            super().__init__(*sources)
            self._look_seconds = 3600.0

    monkeypatch.setattr(figures, "Groups", OneLook)
    async with scaler(pool, look_seconds=60) as (service, keda):
        await eventually(lambda: keda.pushed == [False], "KEDA is told how it is")
        groups = service.figures._groups
        await eventually(lambda: POOL in groups._looked, "the one look is over")
        looked = groups._looked[POOL]
        await pool.produce([work_item("job", price_gpu_seconds=PRICE)])
        await eventually(lambda: keda.pushed == [False, True], "the pool is woken")
        assert groups._looked[POOL] == looked


async def test_what_is_measured_counts_and_tls_hides_it(pool: GpuPool) -> None:
    item = work_item("job", price_gpu_seconds=PRICE, images=2)
    measured = Observation(
        device="CPU", pool=POOL, kind="red", bucket=4, config_hash=item.config_hash, peak_bytes=1, gpu_seconds=20.0,
        count=5, at=datetime.now(UTC),
    )  # fmt: skip
    tls = {"tls_certfile": _CERTIFICATES / "loopback.crt", "tls_keyfile": _CERTIFICATES / "loopback.key"}
    async with scaler(pool, **tls) as (_, keda):
        await pool.produce([item])

        def tells(value: float) -> Callable[[], Awaitable[bool]]:
            async def told() -> bool:
                return await keda.value() == value

            return told

        await eventually(tells(PRICE), "the job's price")
        await pool.produce_raw([(pool.catalogue.observations, 0, measured.key, encode(measured), ())])
        await eventually(tells(2 * 20.0), "two pictures as measured")


async def test_near_deadlines_ask_for_replicas(pool: GpuPool) -> None:
    """Three jobs of 1,000 s: one replica, there after 45 s, begins the last one after 2,045 s, two do after 1,045 s."""
    soon = datetime.now(UTC) + timedelta(seconds=2900)
    async with scaler(pool) as (service, keda):
        keda.ref.scalerMetadata["targetGpuSeconds"] = "6000"
        assert await keda.value() == 0
        await pool.produce([work_item(f"job{n}", price_gpu_seconds=1000.0, deadline=soon) for n in range(3)])

        async def all_read() -> bool:
            signal = service.figures.current(POOL)
            return signal is not None and signal.seconds == 3000

        await eventually(all_read, "all are read")
        assert await keda.value() == 2 * 6000


async def test_a_ledger_beyond_its_topics_end_hides_no_work(pool: GpuPool, caplog: pytest.LogCaptureFixture) -> None:
    """The topic was made anew, and its ledger was not: 0 would be told while work waits."""
    item = work_item("job", price_gpu_seconds=PRICE)
    old = Ledger(watermark=100).encode()
    await pool.produce_raw([(pool.catalogue.ledger(POOL), 0, item.lane.encode(), old, ())])
    await pool.produce([item], partition=0)
    async with scaler(pool) as (service, keda):
        await eventually(lambda: service.disbelief() is not None, "the ledger is not believed")
        metric = service.metrics.registry.get_sample_value
        await eventually(lambda: metric("kiln_scaler_disbelieved_partitions", {"pool": POOL}) == 1, "the metric")
        await eventually(lambda: "ends below what is told to be finished" in caplog.text, "the log")

        async def waits() -> bool:
            return await keda.value() > 0  # as it costs or, where the ledger was read first, as the usual job

        await eventually(waits, "the work counts")
        assert service.not_ready() is None


async def test_what_a_trigger_gets_wrong_is_a_sentence(pool: GpuPool) -> None:
    async with scaler(pool) as (_, keda):
        for metadata, sentence in (
            ({"pool": "b"}, "set pool to one of: a"),
            ({"targetGPUSeconds": "5"}, "'targetGPUSeconds'; known are"),
            ({"targetGpuSeconds": "-1"}, "set it to a number of seconds"),
        ):
            keda.ref.scalerMetadata.update(metadata)
            with pytest.raises(grpc.aio.AioRpcError, match=sentence) as refused:
                await keda.active()
            assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            for key in metadata:
                del keda.ref.scalerMetadata[key]
            keda.ref.scalerMetadata["pool"] = POOL
