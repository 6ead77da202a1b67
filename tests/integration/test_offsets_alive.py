"""A pool's offsets: all of them committed from a consumer's start on, and kept while the pool sleeps."""

import asyncio

from schemas.request import LANES
from streams.kafka.clients import admin_client
from streams.kafka.groups import INDEX_PROTOCOL
from streams.kafka.lag import committed_offsets
from streams.kafka.renewal import renew
from tests.integration.gpu_pool import GpuPool, eventually, work_item
from tests.kafka import POOL


async def committed(pool: GpuPool) -> dict[tuple[str, int], int]:
    admin = admin_client(pool.kafka)
    await admin.start()
    try:
        found = await committed_offsets(admin, pool.catalogue.gpu_group(POOL))
        return {(at.topic, at.partition): each.offset for at, each in found.items()}
    finally:
        await admin.close()


async def test_a_consumer_commits_every_partition_of_every_lane_at_its_start(pool: GpuPool) -> None:
    """Where nothing was committed KEDA counts all that is kept (case KEDA-16), so a start leaves no partition out."""
    async with pool.consumer():
        every = {(pool.work(lane), n): 0 for lane in LANES for n in range(4)}

        async def all_committed() -> bool:  # the markers of the openings follow their acknowledgements
            return await committed(pool) == every

        await eventually(all_committed, "every partition is committed")


async def test_consumers_that_come_while_their_group_is_renewed_do_all_the_work(pool: GpuPool) -> None:
    """Two lives of the pool, renewed all the time between and within: nothing is lost, done twice, or moved back."""
    group, done = pool.catalogue.gpu_group(POOL), set[str]()
    lowest: dict[tuple[str, int], int] = {}

    async def keep_renewing() -> None:
        while True:
            done.add(await renew(pool.kafka, group, [INDEX_PROTOCOL]))
            for at, offset in (await committed(pool)).items():
                assert offset >= lowest.get(at, 0), f"{at} moved back"
                lowest[at] = offset

    renewing = asyncio.create_task(keep_renewing())
    for life in range(2):
        items = [work_item(f"job{life}-{n}") for n in range(8)]
        await pool.produce(items)
        async with pool.consumer() as running:
            await pool.wait_for_results(8 * (life + 1))
            await pool.wait_until_done()
            await eventually(lambda: "in use" in done or renewing.done(), "it is left alone while it is awake")
            assert [running.engine.runs_of(item.job_id) for item in items] == [1] * 8
        done.discard("renewed")
        await eventually(lambda: "renewed" in done or renewing.done(), "the sleeping group is renewed")
    renewing.cancel()
    await asyncio.wait({renewing})
    assert renewing.cancelled()
    assert done >= {"in use", "renewed"}
    assert sum((await committed(pool)).values()) == 16
