"""A broker that is frozen under the scaler: what KEDA hears is the last value, then that there is none, never 0.

Case AIO-13: its connections stay open, and nothing comes by them.
"""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from rich.console import Console

from infra.broker import server
from infra.broker.settings import BrokerSettings
from streams.kafka.admin import create_topics
from streams.kafka.settings import KafkaSettings
from tests.integration.gpu_pool import GpuPool, eventually, work_item
from tests.integration.test_scaler import scaler
from tests.kafka import small_catalogue


class Broker:
    """One of our own, which may be stopped for a while."""

    def __init__(self, settings: BrokerSettings, bootstrap: str) -> None:
        self._pids = server.status(settings).pids
        self.kafka = KafkaSettings(bootstrap_servers=bootstrap)
        self.impatient = self.kafka.model_copy(update={"request_timeout_ms": 3000, "stall_timeout_ms": 3000})

    def freeze(self, *, off: bool = False) -> None:
        for pid in self._pids:
            os.kill(pid, signal.SIGCONT if off else signal.SIGSTOP)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    settings = BrokerSettings(home=tmp_path)
    started = server.up(settings, Console(stderr=True), tied=True)
    made = Broker(settings, started.bootstrap)
    try:
        yield made
    finally:
        made.freeze(off=True)
        server.down(settings)


async def test_an_outage_is_never_nothing_to_do(broker: Broker, tmp_path: Path) -> None:
    none = grpc.StatusCode.UNAVAILABLE
    catalogue = small_catalogue("outage", work_partitions=2)
    await create_topics(broker.kafka, catalogue)
    pool = GpuPool(broker.kafka, catalogue, tmp_path / "store")
    await pool.produce([work_item(f"job{n}", price_gpu_seconds=50.0) for n in range(3)], partition=0)
    pool.kafka = broker.impatient
    heard: list[float | grpc.StatusCode] = []
    async with scaler(pool, age_seconds_max=2.0) as (service, keda):

        async def hears(wanted: float | grpc.StatusCode) -> bool:
            try:
                heard.append(await keda.value())
            except grpc.aio.AioRpcError as error:
                heard.append(error.code())
            return heard[-1] == wanted

        await eventually(lambda: hears(150.0), "the work is known")
        broker.freeze()
        heard.clear()
        await eventually(lambda: hears(none), "there is no value any more")
        assert set(heard) <= {150.0, none}
        assert service.not_ready() == "nothing is known of pool 'a'; look at Kafka"
        await eventually(lambda: service.figures._groups._trouble is not None, "its clients have given up")
        broker.freeze(off=True)
        heard.clear()
        await eventually(lambda: hears(150.0), "the value is back")
        assert set(heard) <= {150.0, none}
        assert keda.pushed == [True]
