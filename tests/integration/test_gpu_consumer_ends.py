"""How a GPU consumer ends: drained, or because nothing moves."""

import asyncio
import json
import threading
from collections.abc import Sequence
from typing import Any, cast

import pytest

from gpu_consumer.index import Change, Index
from gpu_consumer.store.base import ObjectStore, StoreUnavailable
from gpu_consumer.store.outcomes import OutcomeStore
from gpu_consumer.watch import NoProgress
from schemas.codec import encode
from schemas.work import WorkItem
from tests.integration.gpu_pool import PATIENCE_SECONDS, GpuPool, Running, eventually, ledger_of, work_item
from tests.scripted import ScriptedEngine


@pytest.fixture
def _looking_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpu_consumer.watch._PERIOD_SECONDS_MAX", 0.1)


def started(running: Running[ScriptedEngine]) -> float:
    """How many jobs it has heard of that they have a slot."""
    return running.count("job_wait_seconds_count", lane="standard")


# case KEDA-11
# case GPU-16
async def test_a_drain_finishes_what_runs_and_hands_back_the_rest(pool: GpuPool) -> None:
    engine = ScriptedEngine()
    engine.gate.clear()
    items = [work_item(f"job{n}") for n in range(12)]
    await pool.produce(items, partition=0)
    async with pool.consumer(engine) as first:
        await eventually(lambda: sum(len(batch.items) for batch in engine.batches) == 5, "a bucket, and one ahead")
        await eventually(lambda: started(first) == 4, "the bucket has its slots, and the consumer knows")
        first.stop.set()
        await eventually(lambda: len(engine.left) == 1, "what has no slot leaves")
        assert first.consumer.ready() == "draining"
        engine.gate.set()
        await first.task
    assert sum(map(len, engine.runs)) == 4
    assert len(await pool.wait_for_results(4)) == 4
    assert not (await ledger_of(pool, 0)).marks
    async with pool.consumer() as second:
        await pool.wait_for_results(12)
        await pool.wait_until_done()
        assert [engine.runs_of(item.job_id) + second.engine.runs_of(item.job_id) for item in items] == [1] * 12


class Held:
    """A store that creates nothing until it is released, and then nothing either."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self.reached = threading.Event()
        self.released = threading.Event()

    def create(self, key: str, data: bytes, content_type: str) -> bool:
        self.reached.set()
        self.released.wait(PATIENCE_SECONDS)
        raise StoreUnavailable("held")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


# case GPU-16
async def test_a_job_whose_upload_a_drain_cuts_off_is_drawn_again_and_has_one_result(pool: GpuPool) -> None:
    item, held = work_item("job"), Held(pool.store._store)
    try:
        async with pool.consumer(store=OutcomeStore(cast(Any, held)), grace_seconds=2, close_seconds=1) as first:
            await pool.produce([item], partition=0)
            await eventually(held.reached.is_set, "its picture is stored, and its outcome is on its way")
            async with asyncio.timeout(PATIENCE_SECONDS):
                await first.drain()
    finally:
        held.released.set()
    await handed_over(pool, item, runs=1)


# case GPU-16
async def test_a_job_that_a_drain_cuts_off_before_its_commit_is_published_as_it_is_stored(pool: GpuPool) -> None:
    item, reached = work_item("job"), asyncio.Event()
    async with pool.consumer(grace_seconds=2, close_seconds=1) as first:
        settler = first.consumer._settler
        write = settler.write

        async def publish(index: Index, changes: Sequence[Change]) -> bool:
            if any(change.outputs for change in changes):
                reached.set()
                await asyncio.Event().wait()
            return await write(index, changes)

        settler.write = publish  # type: ignore[method-assign]
        await pool.produce([item], partition=0)
        async with asyncio.timeout(PATIENCE_SECONDS):
            await reached.wait()
            await first.drain()
    await handed_over(pool, item, runs=0)


async def handed_over(pool: GpuPool, item: WorkItem, *, runs: int) -> None:
    """Nothing of it was committed; the next consumer ends it, after so many runs, and once."""
    assert (await pool.results(), await pool.lag()) == ([], 1)
    async with pool.consumer() as second:
        (result,) = await pool.wait_for_results(1)
        await pool.wait_until_done()
        assert (result.status, second.engine.runs_of(item.job_id)) == ("succeeded", runs)
    assert len(await pool.results()) == 1


async def test_a_drain_does_not_wait_beyond_its_grace(pool: GpuPool) -> None:
    engine, item = ScriptedEngine(), work_item("endless")
    engine.gate.clear()
    await pool.produce([item], partition=0)
    async with pool.consumer(engine, grace_seconds=2, close_seconds=1) as first:
        await eventually(lambda: started(first) == 1, "it runs")
        settler, runner = first.consumer._settler, first.consumer._runner
        hand_back = settler.hand_back

        async def and_mark_anew(index: Index) -> None:
            """As where its mark is over just then."""
            await hand_back(index)
            await runner._claims._mark(runner.running, 5.0)

        settler.hand_back = and_mark_anew  # type: ignore[method-assign]
        async with asyncio.timeout(PATIENCE_SECONDS):
            await first.drain()
        assert first.consumer.steps() == first.consumer.steps() == [], "its next owner tells of it"
    assert not (await ledger_of(pool, 0)).marks, "handed back: the next owner starts at once and counts no death"
    async with pool.consumer() as second:
        await pool.wait_for_results(1)
        assert second.engine.runs_of(item.job_id) == 1


async def end_fetching(running: Running[ScriptedEngine]) -> None:
    """The client's own task ends without a word. What it had asked for is still delivered."""
    fetcher = running.consumer._fetcher._consumer._fetcher
    fetcher._fetch_task.cancel()
    await asyncio.wait({fetcher._fetch_task, *fetcher._pending_tasks})


# case AIO-04
@pytest.mark.usefixtures("_looking_often")
async def test_a_client_whose_fetching_has_died_ends_the_process(pool: GpuPool) -> None:
    async with pool.consumer(progress_timeout_seconds=30) as running:
        await eventually(lambda: running.consumer._owner.all_open and running.consumer.ready() is None, "open")
        await eventually(lambda: bool(running.consumer._fetcher._consumer.assignment()), "assigned")
        await end_fetching(running)
        await pool.produce([work_item("lost")], partition=0)
        await running.looked()
        running.later(60)
        with pytest.raises(ExceptionGroup) as died:
            await asyncio.wait_for(running.task, PATIENCE_SECONDS)
        assert died.group_contains(NoProgress)
        assert "nothing moved" in (running.consumer.live() or "")
    async with pool.consumer():
        await pool.wait_for_results(1)


async def hold_one(pool: GpuPool, running: Running[ScriptedEngine]) -> None:
    """A job that this consumer cannot run, and that waits for an upgrade."""
    newer = work_item("newer")
    value = json.dumps(json.loads(encode(newer)) | {"schema_version": 2}).encode()
    await pool.produce_raw([(pool.work(), 0, newer.job_id.encode(), value, newer.headers())])
    await eventually(lambda: running.consumer._backlog.count("held") == 1, "held")


# case AIO-04
@pytest.mark.usefixtures("_looking_often")
async def test_a_job_that_is_held_does_not_hide_a_client_that_has_died(pool: GpuPool) -> None:
    async with pool.consumer(progress_timeout_seconds=30) as running:
        await hold_one(pool, running)
        await end_fetching(running)
        await pool.produce([work_item("lost")], partition=0)
        await running.looked()
        running.later(60)
        with pytest.raises(ExceptionGroup) as died:
            await asyncio.wait_for(running.task, PATIENCE_SECONDS)
        assert died.group_contains(NoProgress)


@pytest.mark.usefixtures("_looking_often")
async def test_a_held_job_and_what_it_keeps_from_being_taken_are_a_named_wait(pool: GpuPool) -> None:
    # Not looked at again meanwhile: for that moment it would be no named wait.
    async with pool.consumer(progress_timeout_seconds=30, run_ahead_max=4, hold_retry_seconds=600) as running:
        await hold_one(pool, running)
        await pool.produce([work_item(f"job{n}") for n in range(8)], partition=0)
        await pool.wait_for_results(3)
        await eventually(lambda: running.count("settled_total", status="succeeded") == 3, "they are settled")
        await running.looked()
        running.later(60)
        await running.looked()
        assert running.consumer.live() is None
        assert not running.task.done()
        assert running.count("lag_records", lane="standard", index="0") == 9, "what is taken is not finished"


# case AIO-02
@pytest.mark.usefixtures("_looking_often")
async def test_a_consumer_that_its_group_has_dropped_for_good_ends(pool: GpuPool) -> None:
    async with pool.consumer(progress_timeout_seconds=30) as first:
        await eventually(lambda: len(list(first.consumer._owner.open)) == 4, "open")
        coordinator = first.consumer._fetcher._consumer._coordinator
        coordinator._coordination_task.cancel()
        await coordinator._stop_heartbeat_task()
        async with pool.consumer() as second:
            await eventually(lambda: len(list(second.consumer._owner.open)) == 4, "the other one took over")
            await first.looked()
            first.later(60)
            with pytest.raises(ExceptionGroup) as died:
                await asyncio.wait_for(first.task, PATIENCE_SECONDS)
            assert died.group_contains(NoProgress, match="the group does not know")
