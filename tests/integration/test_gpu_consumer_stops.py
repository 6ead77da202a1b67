"""Kill switches and pauses that reach a GPU consumer through control."""

import pytest

from schemas.codec import encode
from schemas.control import Drop, Pause, control_key
from schemas.request import LANES
from streams.kafka.clients import admin_client
from tests.integration.gpu_pool import GpuPool, config, eventually, ledger_of, work_item
from tests.kafka import POOL
from tests.scripted import ScriptedEngine


async def say(pool: GpuPool, what: str, kind: str, name: str, said: Pause | Drop | None) -> None:
    """As an operator does."""
    value = None if said is None else encode(said)
    await pool.produce_raw([(pool.catalogue.control, 0, control_key(what, kind, name), value, ())])


@pytest.mark.parametrize("subject", [("tenant", "blue"), ("config", "sketch"), ("pool", POOL)], ids="/".join)
async def test_a_drop_ends_what_runs_and_what_waits_and_nothing_that_comes_later(
    pool: GpuPool, subject: tuple[str, str]
) -> None:
    engine = ScriptedEngine()
    engine.gate.clear()
    everything = subject == ("pool", POOL)
    running, waiting = work_item("running", images=4), work_item("waiting", images=3)
    other = work_item("other", tenant="red", config=config(name="oil", bucket=2))
    await pool.produce([running], partition=0)
    async with pool.consumer(engine, affinity_wait_seconds=600) as consumer:
        await eventually(lambda: sum(map(len, engine.runs)) == 4, "one job runs")
        await pool.produce([waiting, other], partition=0)
        await eventually(lambda: consumer.consumer._backlog.count("queued") == 3, "all are taken")
        await say(pool, "drop", *subject, Drop(reason="it draws badly"))
        found = {result.request_id: result for result in await pool.wait_for_results(3 if everything else 2)}
        named = f"{subject[0]} {subject[1]!r} was dropped (it draws badly)"
        assert found["running"].message == f"cancelled while it ran: {named}"
        assert found["running"].gpu_seconds == 4 * engine.gpu_seconds / 2
        assert found["waiting"].message == f"cancelled before it ran: {named}"
        assert engine.runs_of(waiting.job_id) == 0
        engine.gate.set()
        later = work_item("later")
        await pool.produce([later], partition=0)
        found = {result.request_id: result for result in await pool.wait_for_results(4)}
        await pool.wait_until_done()
        assert found["later"].status == "succeeded"
        assert found["other"].status == ("cancelled" if everything else "succeeded")
    assert not (await ledger_of(pool, 0)).marks


async def test_a_paused_pool_finishes_what_runs_and_goes_on_when_it_is_resumed(
    pool: GpuPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpu_consumer.watch._PERIOD_SECONDS_MAX", 0.1)
    engine = ScriptedEngine()
    engine.gate.clear()
    running, taken, late = work_item("running", images=4), work_item("taken", images=40), work_item("late")
    await pool.produce([running], partition=0)
    async with pool.consumer(engine, progress_timeout_seconds=30) as consumer:
        gpu = consumer.consumer
        await eventually(lambda: sum(map(len, engine.runs)) == 4, "one job runs")
        await pool.produce([taken], partition=0)
        await eventually(lambda: len(gpu._backlog.jobs) == 2, "another is taken")
        await say(pool, "pause", "pool", POOL, Pause(reason="a new driver"))
        await eventually(lambda: gpu._stops.paused is not None, "the pause is heard")
        await pool.produce([late], partition=0)
        engine.gate.set()
        await eventually(
            lambda: not gpu._runner.running and not gpu._runner._dispatcher.claiming,
            "what runs has ended, and what was claimed to run next",
        )
        ran = sum(map(len, engine.runs))
        await consumer.looked()
        consumer.later(60)
        await consumer.looked()
        assert not consumer.task.done()
        assert sum(map(len, engine.runs)) == ran < 44
        assert await pool.lag() >= 2
        assert (gpu.live(), gpu.ready(), consumer.count("paused")) == (None, None, 1)
        await say(pool, "pause", "pool", POOL, None)
        found = await pool.wait_for_results(3)
        await pool.wait_until_done()
        assert {result.status for result in found} == {"succeeded"}
        assert {result.attempt for result in found} == {1}


async def test_a_control_topic_that_is_missing_keeps_nobody_from_work(pool: GpuPool) -> None:
    admin = admin_client(pool.kafka)
    await admin.start()
    try:
        await admin.delete_topics([pool.catalogue.control])
    finally:
        await admin.close()
    await pool.produce([work_item("a")], partition=0)
    async with pool.consumer(control_wait_seconds=0.1) as running:
        (result,) = await pool.wait_for_results(1)
        await eventually(lambda: running.consumer.ready() is None, "ready")
    assert result.status == "succeeded"


async def test_a_consumer_of_a_paused_pool_starts_and_takes_nothing(pool: GpuPool) -> None:
    await say(pool, "pause", "pool", POOL, Pause())
    await pool.produce([work_item("a")], partition=0)
    async with pool.consumer(control_wait_seconds=60) as running:
        await eventually(lambda: bool(running.consumer._owner.open), "it has partitions")
        await eventually(lambda: running.consumer._stops.paused is not None, "the pause is heard")
        await eventually(lambda: running.consumer.ready() is None, "ready: it may be rolled out while it is paused")
        assert not running.consumer._backlog.jobs
        assert not any(map(running.consumer._room, LANES)), "nor does it ask for more"
        assert await pool.lag() == 1
        await say(pool, "pause", "pool", POOL, None)
        (result,) = await pool.wait_for_results(1)
        await pool.wait_until_done()
    assert result.status == "succeeded"
