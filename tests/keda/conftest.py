"""KEDA's scalers in a process of their own, and a pool of sixteen partitions whose triggers they are given."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from infra.scaler.service import ScalerService
from infra.scaler.settings import ScalerSettings
from schemas.catalogue import ConfigCatalogue
from schemas.pools import Pool, Pools, Scaling
from schemas.topics import Catalogue, TopicSettings
from streams.kafka.admin import create_topics
from streams.kafka.settings import KafkaSettings
from tests.conftest import missing_service
from tests.golang import GoMissing
from tests.integration.gpu_pool import GpuPool, eventually
from tests.kafka import POOL
from tests.keda.build import probe_program
from tests.keda.probing import Probe

# Ten jobs of six seconds may wait at a replica.
SIXTEEN = Pool(
    gpu_product="CPU",
    vram_bytes=8 << 30,
    price_usd_per_hour=1.0,
    replicas_max=8,
    partitions=16,
    scaling=Scaling(wait_seconds=60, item_seconds=6),
)


@pytest.fixture(scope="session")
def program() -> Path:
    """Built by `python -m tests.keda.build` before, or now."""
    if shutil.which("go") is None:
        missing_service("what KEDA sees is not tested: its code needs Go 1.26 or newer (https://go.dev/dl)")
    try:
        return probe_program()
    except GoMissing as missing:
        missing_service(f"what KEDA sees is not tested: {missing}")


@pytest_asyncio.fixture
async def probe(program: Path) -> AsyncIterator[Probe]:
    async with Probe(program) as made:
        yield made


@pytest_asyncio.fixture
async def pool(kafka: KafkaSettings, prefix: str, tmp_path: Path) -> GpuPool:
    catalogue = Catalogue(TopicSettings(prefix=prefix, requests_partitions=2), Pools(pools={POOL: SIXTEEN}))
    await create_topics(kafka, catalogue)
    return GpuPool(kafka, catalogue, tmp_path / "store")


@pytest_asyncio.fixture
async def scaler(pool: GpuPool) -> AsyncIterator[ScalerService]:
    settings = ScalerSettings(port=0, health_port=0, look_seconds=0.1, count_seconds=0.01)
    service, stop = ScalerService(settings, pool.kafka, pool.catalogue, ConfigCatalogue([])), asyncio.Event()
    task = asyncio.create_task(service.run(stop))
    try:
        await eventually(lambda: task.done() or service.not_ready() is None, "the scaler is ready")
        yield service
    finally:
        stop.set()
        await task
