"""The whole of a consumer, with a real engine: a picture is a function of configuration, prompt and seed."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from gpu_consumer.engine.process import EngineProcess
from gpu_consumer.engine.protocol import Ready
from gpu_consumer.store.base import StoreSettings
from gpu_consumer.store.choice import open_store
from gpu_consumer.store.outcomes import OutcomeStore
from schemas.config import GenerationConfig
from streams.artifacts import fetch
from tests.integration.gpu_pool import GpuPool, work_item
from tests.kafka import POOL
from tests.s3server import s3_env, s3_server, s3_store_url
from tests.tiny import tiny_config

__all__ = ["s3_env", "s3_server", "s3_store_url"]  # fixtures

PROMPT = "a red fox in the snow"


def digest_of(uri: str) -> str:
    return hashlib.sha256(Path(uri.removeprefix("file://")).read_bytes()).hexdigest()


def of_request(results: list[Any], name: str) -> Any:
    (result,) = (each for each in results if each.request_id == name)
    assert result.status == "succeeded"
    return result


async def test_alone_and_among_others_it_is_the_same_picture(
    pool: GpuPool, engine: tuple[EngineProcess, Ready], config: GenerationConfig, models: Path
) -> None:
    """Its neighbours take other numbers of steps, so that it joins while they run, and they leave while it does."""
    alone, late = (work_item(name, config=config, prompt=PROMPT, seed=11) for name in ("alone", "late"))
    kinds = [tiny_config(models, pool=POOL, name=f"steps{steps}", steps=steps) for steps in (3, 5, 7)]
    others = [work_item(f"boat{n}", config=kinds[n % 3], seed=n) for n in range(3 * config.bucket)]
    half = len(others) // 2
    async with pool.consumer_over(*engine):
        await pool.produce([alone], partition=0)
        await pool.wait_for_results(1)
        await pool.produce([*others[:half], late, *others[half:]], partition=0)
        results = await pool.wait_for_results(2 + len(others))
    assert of_request(results, "alone").batch_size == 1
    assert of_request(results, "late").batch_size > 1
    (first,), (second,) = of_request(results, "alone").artifacts, of_request(results, "late").artifacts
    assert first.sha256 == second.sha256
    assert len({artifact.sha256 for result in results for artifact in result.artifacts}) == 1 + len(others)
    assert digest_of(first.uri) == digest_of(second.uri) == first.sha256


async def test_alone_and_in_a_full_batch_it_is_the_same_picture(
    pool: GpuPool, engine: tuple[EngineProcess, Ready], models: Path
) -> None:
    whole = tiny_config(models, pool=POOL, name="whole", batching="whole")
    alone, last = (work_item(name, config=whole, prompt=PROMPT, seed=11) for name in ("alone", "last"))
    others = [work_item(f"boat{n}", config=whole, seed=n) for n in range(whole.bucket - 1)]
    async with pool.consumer_over(*engine):
        await pool.produce([alone], partition=0)
        await pool.wait_for_results(1)
    async with pool.consumer_over(*engine, batch_wait_seconds=60):  # a full batch does not wait so long
        await pool.produce([*others, last], partition=0)
        results = await pool.wait_for_results(1 + whole.bucket)
    assert (of_request(results, "alone").batch_size, of_request(results, "last").batch_size) == (1, whole.bucket)
    (first,), (second,) = of_request(results, "alone").artifacts, of_request(results, "last").artifacts
    assert first.sha256 == second.sha256


@pytest.mark.timeout(1000)  # the first time the server is built
async def test_pictures_and_outcomes_lie_in_s3(
    pool: GpuPool, engine: tuple[EngineProcess, Ready], config: GenerationConfig, s3_store_url: str
) -> None:
    store = open_store(s3_store_url, StoreSettings())
    pair = work_item("pair", config=config, prompt=PROMPT, seed=11, images=2)
    async with pool.consumer_over(*engine, store=OutcomeStore(store)):
        await pool.produce([pair], partition=0)
        (result,) = await pool.wait_for_results(1)
    outcome = OutcomeStore(store).lookup(pair.job_id)
    assert outcome is not None
    assert outcome.result == result
    assert [artifact.seed for artifact in result.artifacts] == [11, 12]
    for artifact in result.artifacts:
        assert artifact.uri.startswith(s3_store_url)
        data = store.get(artifact.uri.removeprefix(f"{s3_store_url}/"))
        assert data is not None
        assert hashlib.sha256(data).hexdigest() == artifact.sha256
        assert fetch(artifact) == data, "a command gets it from the same server"
