"""Cases AIO-22 and FST-23: services that have nothing to do keep nothing of the looks at it."""

import gc
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer

from schemas.topics import Catalogue
from streams.kafka.settings import KafkaSettings
from tests.admission import eventually, running, small_world
from tests.integration.gpu_pool import GpuPool

WARM, LOOKS = 2000, 6000
KEPT_MAX = 300  # objects: of one look in twenty. What comes and goes is some 100


async def test_no_look_at_nothing_leaves_anything_behind(
    kafka: KafkaSettings, catalogue: Catalogue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No client of ours is instrumented by others: what is traced is told by our own code, and only of requests."""
    looks, getmany = 0, AIOKafkaConsumer.getmany

    async def counted(consumer: AIOKafkaConsumer, *partitions: Any, timeout_ms: int = 0, **more: Any) -> Any:
        nonlocal looks
        looks += 1
        return await getmany(consumer, *partitions, timeout_ms=min(timeout_ms, 2), **more)

    monkeypatch.setattr(AIOKafkaConsumer, "getmany", counted)
    often: dict[str, Any] = {"idle_seconds": 0.01, "refresh_seconds": 0.05}
    async with (
        running(kafka, small_world(catalogue), "faust", **often) as admission,
        GpuPool(kafka, catalogue, tmp_path / "store").consumer(
            progress_timeout_seconds=1, idle_seconds=0.05
        ) as consumer,
    ):
        await eventually(lambda: admission.not_ready() is None and consumer.consumer.ready() is None)

        async def objects_after(so_many: int) -> int:
            await eventually(lambda: looks > so_many)
            gc.collect()
            return len(gc.get_objects())

        before = await objects_after(looks + WARM)
        kept: list[int] = []
        while not kept or (min(kept) >= KEPT_MAX and len(kept) < 3):  # what is done for the first time may come late
            after = await objects_after(looks + LOOKS)
            kept.append(after - before)
            before = after
    assert min(kept) < KEPT_MAX
