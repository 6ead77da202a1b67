"""GPU consumers over a real broker, with an engine that takes no time."""

from pathlib import Path

import pytest

from schemas.topics import Catalogue
from streams.kafka.settings import KafkaSettings
from tests.integration.gpu_pool import GpuPool, work_item


@pytest.fixture
def pool(kafka: KafkaSettings, catalogue: Catalogue, tmp_path: Path) -> GpuPool:
    return GpuPool(kafka, catalogue, tmp_path / "store")


async def test_each_job_ends_in_one_result_that_is_what_is_stored(pool: GpuPool) -> None:
    items = [work_item(f"job{n}", lane=("interactive", "standard", "bulk")[n % 3], images=1 + n % 3) for n in range(40)]
    await pool.produce(items)
    async with pool.consumer() as running:
        results = await pool.wait_for_results(len(items))
        await pool.wait_until_done()
        assert running.consumer.idle
        assert running.consumer.ready() is None
    assert sorted(result.job_id for result in results) == sorted(item.job_id for item in items)
    for result in results:
        outcome = pool.store.lookup(result.job_id)
        assert outcome is not None
        assert outcome.result == result
        assert result.status == "succeeded"
    assert [len(result.artifacts) for result in results if result.request_id == "job5"] == [3]
