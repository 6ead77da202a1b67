"""A pool on the session's broker, and one engine process for all tests that leave it as it was."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_consumer.engine.process import EngineProcess
from gpu_consumer.engine.protocol import Ready
from gpu_consumer.engine.settings import EngineSettings
from schemas.config import GenerationConfig
from schemas.topics import Catalogue
from streams.kafka.settings import KafkaSettings
from tests.integration.gpu_pool import GpuPool
from tests.kafka import POOL
from tests.kiln import Kiln, small_deployment
from tests.tiny import models, tiny_config

__all__ = ["models"]


@pytest.fixture
def pool(kafka: KafkaSettings, catalogue: Catalogue, tmp_path: Path) -> GpuPool:
    return GpuPool(kafka, catalogue, tmp_path / "store")


@pytest.fixture
def kiln(kafka_env: dict[str, str], prefix: str, tmp_path: Path) -> Kiln:
    return Kiln(kafka_env | small_deployment(prefix, tmp_path))


@pytest.fixture(scope="session")
def config(models: Path) -> GenerationConfig:
    return tiny_config(models, pool=POOL)


@pytest.fixture(scope="session")
def engine(models: Path, config: GenerationConfig) -> Iterator[tuple[EngineProcess, Ready]]:
    """Its model loaded and warm."""
    made = EngineProcess(EngineSettings(models_directory=models, threads=1), [config])
    try:
        yield made, asyncio.run(made.start())
    finally:
        asyncio.run(made.stop())


@pytest.fixture
def lent(engine: tuple[EngineProcess, Ready], monkeypatch: pytest.MonkeyPatch) -> None:
    """A command of this process draws in the engine of many tests; unit tests show that it starts its own."""
    process, ready = engine

    class Lent:
        alive = True
        submit, events = process.submit, process.events

        async def start(self) -> Ready:
            return ready

        async def stop(self) -> None: ...

    monkeypatch.setattr("gpu_consumer.verify.draw.EngineProcess", lambda *_: Lent())
