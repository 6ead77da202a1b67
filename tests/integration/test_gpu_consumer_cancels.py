"""Cancels that reach a GPU consumer: before its jobs are taken, while they wait, while they run."""

from datetime import UTC, datetime, timedelta

import pytest

from streams.kafka.errors import LeaseVoid
from tests.integration.gpu_pool import GpuPool, config, eventually, ledger_of, work_item
from tests.scripted import ScriptedEngine


@pytest.mark.parametrize("reopened", [False, True], ids=["", "in an index that was lost and opened again"])
async def test_a_cancel_ends_what_runs_and_what_waits_and_nothing_else(pool: GpuPool, reopened: bool) -> None:
    engine = ScriptedEngine()
    engine.gate.clear()
    running, other = work_item("running", images=2), work_item("other")
    waiting = work_item("waiting", config=config(name="b", bucket=2), images=3)
    await pool.produce([running, other], partition=0)
    async with pool.consumer(engine, affinity_wait_seconds=600) as consumer:
        await eventually(lambda: sum(map(len, engine.runs)) == 3, "two jobs run")
        await pool.produce([waiting], partition=0)  # later: jobs are looked up side by side, and queued as that ends
        await eventually(lambda: consumer.consumer._backlog.count("queued") == 3, "all are taken")
        if reopened:
            owner = consumer.consumer._owner
            owner.void(next(index for index in owner.open if index.number == 0), LeaseVoid("in doubt"))
            await eventually(lambda: consumer.consumer._backlog.count("queued") == 2, "what waited is forgotten")
            await eventually(lambda: consumer.consumer._backlog.count("queued") == 3, "and taken anew")
        await pool.cancel(running, waiting)
        found = {result.request_id: result for result in await pool.wait_for_results(2)}
        assert {result.status for result in found.values()} == {"cancelled"}
        assert found["running"].gpu_seconds == engine.gpu_seconds
        assert found["waiting"].gpu_seconds == 0.0
        engine.gate.set()
        await pool.wait_for_results(3)
        await pool.wait_until_done()
        await eventually(lambda: consumer.consumer.idle, "idle")
        assert engine.runs_of(waiting.job_id) == 0
        for item, status in ((running, "cancelled"), (waiting, "cancelled"), (other, "succeeded")):
            outcome = pool.store.lookup(item.job_id)
            assert outcome is not None
            assert outcome.result.status == status
    assert not (await ledger_of(pool, 0)).marks


async def test_a_cancel_that_came_first_costs_no_run_and_an_older_one_reaches_nothing(pool: GpuPool) -> None:
    now = datetime.now(UTC)
    known = work_item("known", appended_ms=int((now - timedelta(minutes=1)).timestamp() * 1000))
    younger = work_item("younger", appended_ms=int((now + timedelta(minutes=1)).timestamp() * 1000))
    await pool.cancel(known, younger)
    async with pool.consumer() as running:
        await eventually(lambda: len(running.consumer._cancels) == 2, "both are known")
        await pool.produce([known, younger], partition=0)
        found = {result.request_id: result.status for result in await pool.wait_for_results(2)}
        await pool.wait_until_done()
        assert running.engine.runs_of(known.job_id) == 0
    assert found == {"known": "cancelled", "younger": "succeeded"}


async def test_a_job_that_is_held_can_be_cancelled(pool: GpuPool) -> None:
    engine = ScriptedEngine()
    engine.missing = {"tiny"}
    held = work_item("held")
    await pool.produce([held], partition=0)
    async with pool.consumer(engine) as running:
        await eventually(lambda: running.consumer._backlog.count("held") == 1, "held")
        await pool.cancel(held)
        (result,) = await pool.wait_for_results(1)
        await pool.wait_until_done()
        await eventually(lambda: running.consumer.ready() is None, "ready again")
    assert result.status == "cancelled"
