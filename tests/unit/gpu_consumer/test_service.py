"""The process around a consumer, without a broker."""

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest

from gpu_consumer.engine.instant import InstantEngine
from gpu_consumer.service import GpuService
from gpu_consumer.settings import GpuConsumerSettings
from gpu_consumer.store.base import StoreSettings
from schemas.errors import CommandError
from streams.kafka.settings import KafkaSettings
from tests.kafka import POOL, small_catalogue


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
    values: dict[str, Any] = {"pool": POOL, "health_port": 0}
    service = GpuService(
        GpuConsumerSettings(**values), KafkaSettings(bootstrap_servers="127.0.0.1:1"), small_catalogue("t"), engine,
        StoreSettings(url=f"file://{tmp_path}"),
    )  # fmt: skip
    stop = asyncio.Event()
    stop.set()
    async with asyncio.timeout(30):
        await service.run(stop)
    assert engine.killed


async def test_a_taken_port_is_said_with_its_cure(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        values: dict[str, Any] = {"pool": POOL, "health_port": taken.getsockname()[1]}
        service = GpuService(
            GpuConsumerSettings(**values), KafkaSettings(bootstrap_servers="127.0.0.1:1"), small_catalogue("t"),
            InstantEngine(), StoreSettings(url=f"file://{tmp_path}"),
        )  # fmt: skip
        with pytest.raises(CommandError, match="KILN_GPU_HEALTH_PORT"):
            await service.run(asyncio.Event())
