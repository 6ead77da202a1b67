"""What the suites over engines share: a configuration of a tiny model, settings, four items, and what one looks at."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_consumer.engine.protocol import Item
from gpu_consumer.engine.settings import EngineSettings
from schemas.config import GenerationConfig
from tests.streaming import PATIENCE
from tests.tiny import tiny_config

MEMORY = 1 << 30
ITEMS = (
    Item("a", "a red circle on the left", "", 0),
    Item("b", "日本の城 🏯", "grey", 1),
    Item("c", "a cat", "a dog", 2**63),
    Item("d", "", "", 3),
)


def changed(config: GenerationConfig, **different: object) -> GenerationConfig:
    """Not model_copy, which would copy the hash that was computed before."""
    return GenerationConfig.model_validate({**config.model_dump(), **different})


def entries(folder: str) -> int:
    return len(list(Path(folder).iterdir()))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - the condition is another process's
            await asyncio.sleep(0.01)


@pytest.fixture(scope="module")
def config(models: Path) -> GenerationConfig:
    return tiny_config(models)


@pytest.fixture(scope="module")
def settings(models: Path) -> EngineSettings:
    return EngineSettings(models_directory=models, cpu_memory_bytes=MEMORY)
