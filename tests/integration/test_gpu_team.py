"""A consumer over two engine processes that share their weights: real broker, real (tiny) models."""

import os
import signal
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from gpu_consumer.engine.protocol import Ready
from gpu_consumer.engine.settings import EngineSettings
from gpu_consumer.engine.team import EngineTeam
from schemas.config import GenerationConfig
from tests.integration.gpu_pool import GpuPool, eventually, work_item
from tests.kafka import POOL
from tests.tiny import tiny_config

LONG = 60  # steps: enough to kill somebody in the middle, few enough for those that then run alone


@pytest_asyncio.fixture
async def team(models: Path, config: GenerationConfig) -> AsyncIterator[tuple[EngineTeam, Ready]]:
    made = EngineTeam(EngineSettings(models_directory=models), [config], workers=2)
    yield made, await made.start()
    await made.stop()


async def test_both_run_and_one_that_dies_is_charged_for_its_own(
    pool: GpuPool, team: tuple[EngineTeam, Ready], models: Path
) -> None:
    config = tiny_config(models, pool=POOL, steps=LONG, batching="whole")
    items = [work_item(f"job{n}", config=config, seed=n) for n in range(2 * config.bucket)]
    await pool.produce(items, partition=0)
    engine, ready = team
    async with pool.consumer_over(engine, ready, batch_wait_seconds=60) as running:
        await eventually(
            lambda: running.count("job_wait_seconds_count", lane="standard") == len(items), "both are full"
        )
        os.kill(engine.pids[1], signal.SIGKILL)
        results = await pool.wait_for_results(len(items))
        await pool.wait_until_done()
        assert running.count("engine_restarts_total") == 1
    assert {result.status for result in results} == {"succeeded"}
    assert Counter(result.attempt for result in results) == {1: config.bucket, 2: config.bucket}
