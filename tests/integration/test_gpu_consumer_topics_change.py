"""Work topics that change under a pool: they grow, and retention takes what nobody read."""

from aiokafka.admin import NewPartitions

from schemas.request import LANES
from streams.kafka.clients import admin_client
from tests.integration.gpu_pool import GpuPool, eventually, work_item
from tests.kafka import POOL
from tests.keda.offsets import delete_records


async def test_what_comes_to_new_partitions_before_anybody_knows_them_is_drawn(pool: GpuPool) -> None:
    """Case KQ-07."""
    pool.kafka = pool.kafka.model_copy(update={"metadata_max_age_ms": 1000})
    async with pool.consumer() as running:
        await eventually(lambda: running.consumer._owner.all_open and running.consumer.ready() is None, "ready")
        admin = admin_client(pool.kafka)
        await admin.start()
        try:
            topics = [pool.catalogue.ledger(POOL), *map(pool.work, LANES)]
            await admin.create_partitions({topic: NewPartitions(8) for topic in topics})

            async def led() -> bool:
                found = [each["partitions"] for each in await admin.describe_topics(topics)]
                return all(sum(at["leader"] >= 0 for at in partitions) == 8 for partitions in found)

            await eventually(led, "producers may know the new partitions")
        finally:
            await admin.close()
        for index in range(8):
            await pool.produce([work_item(f"job{index}")], partition=index)
        results = await pool.wait_for_results(8)
        await pool.wait_until_done()
        assert {result.request_id for result in results} == {f"job{n}" for n in range(8)}
        assert len(results) == 8


async def test_a_job_behind_what_retention_took_is_drawn(pool: GpuPool) -> None:
    """Case KQ-08: the group's offset, and the ledger's, are of records that are gone."""
    async with pool.consumer():
        await pool.produce([work_item("old")], partition=0)
        await pool.wait_for_results(1)
        await pool.wait_until_done()
    await pool.produce([work_item(f"lost{n}") for n in range(3)], partition=0)
    await delete_records(pool.kafka, [pool.work()], 4)
    await pool.produce([work_item("new")], partition=0)
    async with pool.consumer() as second:
        await pool.wait_for_results(2)
        await pool.wait_until_done()
        assert second.engine.seen == [["a new"]]
