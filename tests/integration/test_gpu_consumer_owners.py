"""Partitions that move between GPU consumers, and groups and topics that were changed under them."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

from aiokafka import TopicPartition

from gpu_consumer.backlog import Job
from gpu_consumer.index import Change, Index
from schemas.request import LANES
from streams.kafka.admin import create_topics
from streams.kafka.clients import admin_client, group_consumer
from tests.integration.gpu_pool import GpuPool, eventually, work_item
from tests.kafka import POOL
from tests.scripted import ScriptedEngine


async def reset_group(pool: GpuPool) -> None:
    """As an operator would, while no consumer runs: every offset back to the earliest."""
    consumer = group_consumer(pool.kafka, pool.catalogue.gpu_group(POOL))
    partitions = [TopicPartition(pool.work(lane), n) for lane in LANES for n in range(4)]
    consumer.assign(partitions)
    await consumer.start()
    try:
        await consumer.commit(dict.fromkeys(partitions, 0))
    finally:
        await consumer.stop()


# case KQ-10
# case KQ-11
async def test_a_group_that_was_reset_sees_no_second_event_and_no_second_run(pool: GpuPool) -> None:
    items = [work_item(f"job{n}") for n in range(12)]
    await pool.produce(items)
    async with pool.consumer():
        await pool.wait_for_results(12)
        await pool.wait_until_done()
    await reset_group(pool)

    async def all_anew() -> bool:
        return await pool.lag() == 12

    await eventually(all_anew, "an offset read back after a commit may be stale for a moment")
    async with pool.consumer() as second:
        await pool.wait_until_done()
        await pool.produce([work_item("late")], partition=0)
        await pool.wait_for_results(13)
        assert [item.prompt for batch in second.engine.batches for item in batch.items] == ["a late"]
    assert max(Counter(result.job_id for result in await pool.results()).values()) == 1


async def test_what_a_fenced_consumer_finished_is_published_by_the_next_owner(pool: GpuPool) -> None:
    item = work_item("long")
    first_engine = ScriptedEngine()
    first_engine.gate.clear()
    await pool.produce([item], partition=0)
    async with pool.consumer(first_engine, mark_seconds_min=50, mark_poll_seconds=0.1) as first:
        await eventually(lambda: first_engine.runs_of(item.job_id) == 1, "the job runs")
        thief = Index(pool.kafka, pool.catalogue, POOL, 0)
        await thief.open()  # as the next owner of the partition would
        fenced = first.consumer._owner._indexes[0]
        assert not await first.consumer._settler.write(fenced, [Change("bulk", lambda ledger: None)])
        await thief.close()
        await eventually(lambda: first.consumer._owner._indexes.get(0) not in (None, fenced), "opened again")
        first_engine.gate.set()
        (result,) = await pool.wait_for_results(1)
        await pool.wait_until_done()
        assert result.status == "succeeded"
        assert first_engine.runs_of(item.job_id) == 1


async def test_a_moved_partition_waits_for_the_holder_of_a_mark(pool: GpuPool) -> None:
    items = [work_item(f"job{n}") for n in range(4)]
    engine, second_engine = ScriptedEngine(), ScriptedEngine()
    engine.gate.clear()
    await pool.produce(items)  # one a partition
    marks: dict[str, Any] = {"mark_seconds_min": 50, "mark_poll_seconds": 0.1}
    async with pool.consumer(engine, **marks) as first:
        await eventually(lambda: len([item for run in engine.runs for item in run]) == 4, "all of them run")
        async with pool.consumer(second_engine, **marks) as second:
            await eventually(lambda: len(list(second.consumer._owner.open)) == 2, "half of the indexes moved")
            await eventually(lambda: second.consumer.idle or second.consumer._backlog.count("held") > 0, "looked at")
            engine.gate.set()
            found = await pool.wait_for_results(4)
            await pool.wait_until_done()
            assert second.count("settled_total", status="succeeded") == 2
    assert {result.status for result in found} == {"succeeded"}
    assert [engine.runs_of(item.job_id) + second_engine.runs_of(item.job_id) for item in items] == [1] * 4
    assert first.count("stored_fenced_total") == 2


async def test_what_was_marked_and_not_sent_when_its_partition_moved_is_handed_over(pool: GpuPool) -> None:
    items = [work_item(f"job{n}") for n in range(4)]
    marks: dict[str, Any] = {"mark_seconds_min": 50, "mark_poll_seconds": 0.1}
    async with pool.consumer(**marks) as first:
        runner, backlog, owner = first.consumer._runner, first.consumer._backlog, first.consumer._owner
        choose, claim, hand_over = runner._dispatcher.choose, runner._claims.claim, owner._hand_over
        marked: list[Job] = []
        handed_over: list[int] = []
        both, taken = asyncio.Event(), asyncio.Event()

        def choose_all() -> None:
            if backlog.count("queued") == 4:
                choose()

        async def claim_and_wait(jobs: Sequence[Job], seconds: float) -> None:
            await claim(jobs, seconds)
            marked.extend(jobs)
            await taken.wait()

        async def handing_over(index: Index) -> None:
            await hand_over(index)
            handed_over.append(index.number)
            if len(handed_over) == 2:
                both.set()

        runner._dispatcher.choose = choose_all  # type: ignore[method-assign]
        runner._claims.claim = claim_and_wait  # type: ignore[method-assign]
        owner._hand_over = handing_over
        try:
            await pool.produce(items)  # one a partition
            await eventually(lambda: len(marked) == 4, "all of them are marked")
            async with pool.consumer(**marks) as second:
                is_live_member = second.consumer._owner._is_live_member

                async def later() -> bool:
                    """It gives the first a quarter of a second by itself, which a busy machine may need for a nap."""
                    return both.is_set() and await is_live_member()

                second.consumer._owner._is_live_member = later
                await eventually(
                    lambda: sum(len(each.items) for each in second.engine.batches) == 2, "it begins what moved"
                )
                assert second.consumer._fetcher._assignor.moved == set(handed_over)
                taken.set()
                found = await pool.wait_for_results(4)
                await pool.wait_until_done()
                assert second.count("settled_total", status="succeeded") == 2
        finally:
            taken.set()
    assert {result.status for result in found} == {"succeeded"}
    assert [first.engine.runs_of(item.job_id) + second.engine.runs_of(item.job_id) for item in items] == [1] * 4
    assert first.count("stored_fenced_total") == 0
    attempts = [result.attempt for result in found]
    assert attempts == [1] * 4, "nobody died"


# case AIO-01
async def test_a_long_job_keeps_its_member_in_the_group(pool: GpuPool) -> None:
    pool.kafka = pool.kafka.model_copy(update={"max_poll_interval_ms": 5000})
    item, engine = work_item("long"), ScriptedEngine()
    engine.gate.clear()
    await pool.produce([item], partition=0)
    async with pool.consumer(engine) as first, pool.consumer() as second:
        await eventually(
            lambda: engine.runs_of(item.job_id) == 1 or second.engine.runs_of(item.job_id) == 1, "the job runs"
        )
        await asyncio.sleep(11)  # more than twice the interval: the thing itself is that time passes
        opened = [first.count("lease_openings_total", index=str(n)) for n in range(4)]
        engine.gate.set()
        await pool.wait_for_results(1)
        await pool.wait_until_done()
        assert [first.count("lease_openings_total", index=str(n)) for n in range(4)] == opened
        assert engine.runs_of(item.job_id) + second.engine.runs_of(item.job_id) == 1


# case AIO-16
async def test_pauses_survive_rebalances(pool: GpuPool) -> None:
    engine = ScriptedEngine()
    engine.gate.clear()
    items = [work_item(f"job{n}") for n in range(60)]
    await pool.produce(items)
    async with pool.consumer(engine, backlog_max=4, mark_seconds_min=1, mark_poll_seconds=0.1) as first:
        await eventually(lambda: len(engine.runs) > 0, "something runs")
        client = first.consumer._fetcher._consumer
        for _ in range(2):
            other = ScriptedEngine()
            other.gate.clear()
            async with pool.consumer(other, backlog_max=4) as second:
                await eventually(lambda: len(client.assignment()) < 12, "shared")
                second.stop.set()
                other.gate.set()
                await second.task
            await eventually(lambda: len(client.assignment()) == 12, "alone again")
            await eventually(
                lambda: {each for each in client.assignment() if "standard" in each.topic} <= client.paused(), "paused"
            )
            assert first.consumer._backlog.pictures("standard") <= 4 + 4
        assert sum(map(len, engine.runs)) <= 4, "no second batch beside the first"
        engine.gate.set()
        await pool.wait_for_results(60)
        await pool.wait_until_done()
    assert max(Counter(result.job_id for result in await pool.results()).values()) == 1


async def test_a_work_topic_made_anew_under_its_old_ledger_is_named(pool: GpuPool) -> None:
    await pool.produce([work_item(f"job{n}") for n in range(5)], partition=0)
    async with pool.consumer():
        await pool.wait_for_results(5)
        await pool.wait_until_done()
    admin = admin_client(pool.kafka)
    await admin.start()
    try:
        await admin.delete_topics([pool.work()])

        async def gone() -> bool:
            return pool.work() not in await admin.list_topics()

        await eventually(gone, "the topic is deleted")
    finally:
        await admin.close()
    await create_topics(pool.kafka, pool.catalogue)
    await pool.produce([work_item("purged")], partition=0)
    async with pool.consumer(progress_timeout_seconds=8) as running:
        await eventually(lambda: "made anew" in (running.consumer.ready() or ""), "not ready")


async def test_a_ledger_that_cannot_be_read_is_never_taken_for_an_empty_one(pool: GpuPool) -> None:
    await pool.produce_raw([(pool.catalogue.ledger(POOL), 2, b"standard", b'{"schema_version":9}', ())])
    await pool.produce([work_item("held")], partition=2)
    await pool.produce([work_item("fine")], partition=1)
    async with pool.consumer() as running:
        (result,) = await pool.wait_for_results(1)
        assert result.request_id == "fine"
        await eventually(lambda: "upgrade" in (running.consumer.ready() or ""), "not ready")
