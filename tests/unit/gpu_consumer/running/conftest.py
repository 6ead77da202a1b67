"""A runner with what surrounds it, without a broker."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.unit.gpu_consumer.bench import Bench


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    made = Bench(tmp_path)
    await made.start()
    yield made
    await made.end()
