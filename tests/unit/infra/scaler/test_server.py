"""KEDA's questions over a real socket, with figures that are given."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import grpc
import pytest

from infra.scaler import externalscaler_pb2 as pb
from infra.scaler.externalscaler_pb2_grpc import ExternalScalerStub
from infra.scaler.metrics import ScalerMetrics
from infra.scaler.server import Answers
from infra.scaler.service import server_of
from infra.scaler.settings import ScalerSettings
from infra.scaler.signal import Signal
from tests.kafka import POOL, small_catalogue

REF = pb.ScaledObjectRef(name="kiln-gpu-a", namespace="kiln", scalerMetadata={"pool": POOL})
ASKED = pb.GetMetricsRequest(scaledObjectRef=REF, metricName=f"gpu-seconds-{POOL}")


class Given:
    """Figures of a pool that has 30 GPU-seconds to do."""

    def __init__(self) -> None:
        self._told = asyncio.Event()

    def news(self, pool: str) -> asyncio.Event:
        return self._told

    def current(self, pool: str) -> Signal:
        return Signal({"bulk": 30.0}, 0.0, [30.0], 0, 0.0, 0)


class Scaler:
    def __init__(self, **settings: int) -> None:
        self.metrics = ScalerMetrics()
        self._settings = ScalerSettings(**settings)  # type: ignore[arg-type]
        figures: Any = Given()
        pools = small_catalogue("kiln").pools
        self._answers = Answers(figures, pools, self.metrics, streams_max=self._settings.streams_max)

    @asynccontextmanager
    async def served(self, **seconds: float) -> AsyncIterator[int]:
        server = server_of(self._answers, self._settings, **seconds)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            yield port
        finally:
            self._answers.close()
            await server.stop(1)

    @property
    def streams(self) -> float | None:
        value: float | None = self.metrics.registry.get_sample_value("kiln_scaler_streams", {"pool": POOL})
        return value

    async def has(self, streams: int) -> None:
        async with asyncio.timeout(30):  # less than the minute that gRPC waits by itself
            while self.streams != streams:  # noqa: ASYNC110 - gRPC ends them when it will
                await asyncio.sleep(0.02)


async def opened(stub: Any) -> Any:
    """A push stream that has told how it is."""
    stream = stub.StreamIsActive(REF)
    assert (await stream.read()).result
    return stream


async def test_streams_leave_the_calls_their_room() -> None:
    scaler = Scaler(streams_max=12, calls_max=8)
    async with scaler.served() as port, grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub: Any = ExternalScalerStub(channel)  # type: ignore[no-untyped-call]
        streams = [await opened(stub) for _ in range(12)]
        (told,) = (await stub.GetMetrics(ASKED)).metricValues
        assert told.metricValueFloat == 30
        assert (await stub.IsActive(REF)).result
        with pytest.raises(grpc.aio.AioRpcError, match=r"12 push streams are open.*KILN_SCALER_STREAMS_MAX") as refused:
            await stub.StreamIsActive(REF).read()
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        labels = {"method": "StreamIsActive", "status": "RESOURCE_EXHAUSTED"}
        assert scaler.metrics.registry.get_sample_value("kiln_scaler_answers_total", labels) == 1
        streams.pop().cancel()
        await scaler.has(streams=11)
        streams.append(await opened(stub))


class Wire:
    """Between a client and a server; once cut it carries nothing more and tells nobody, as when a node dies."""

    def __init__(self, to: int) -> None:
        self._to = to
        self._cut = False
        self._tasks: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def laid(self) -> AsyncIterator[int]:
        server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            for task in self._tasks:
                task.cancel()
            server.close()

    def cut(self) -> None:
        self._cut = True

    async def _connect(self, here: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        there, on = await asyncio.open_connection("127.0.0.1", self._to)
        self._tasks |= {asyncio.create_task(self._carry(*way)) for way in ((here, on), (there, back))}

    async def _carry(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await source.read(65_536):
                if not self._cut:
                    sink.write(data)
                    await sink.drain()


async def test_the_streams_of_a_dead_peer_end() -> None:
    scaler = Scaler(streams_max=1)
    async with scaler.served(ask_seconds=0.2, answer_seconds=2) as port:
        wire = Wire(port)
        async with wire.laid() as entrance, grpc.aio.insecure_channel(f"127.0.0.1:{entrance}") as channel:
            await opened(ExternalScalerStub(channel))  # type: ignore[no-untyped-call]
            assert scaler.streams == 1
            wire.cut()
            await scaler.has(streams=0)
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            await opened(ExternalScalerStub(channel))  # type: ignore[no-untyped-call]
