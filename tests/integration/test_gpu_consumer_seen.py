"""What a GPU consumer tells of itself, beside what it has done."""

import pytest

from gpu_consumer import watch
from streams.kafka.clients import transactional_producer
from tests.integration.gpu_pool import GpuPool, eventually, work_item
from tests.scripted import ScriptedEngine


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "_PERIOD_SECONDS_MAX", 0.5)


async def test_what_a_strangers_open_transaction_hides_is_told_until_it_ends(pool: GpuPool) -> None:
    topic = pool.work("bulk")
    patient = pool.kafka.model_copy(update={"transaction_timeout_ms": 300_000})
    stranger = transactional_producer(patient, f"{pool.catalogue.settings.prefix}.stranger")
    await stranger.start()
    try:
        async with pool.consumer() as running:
            await stranger.begin_transaction()
            await stranger.send_and_wait(topic, b"hidden", partition=2)
            await eventually(lambda: running.count("unstable_records", topic=topic) == 1, "the record is told")
            await eventually(lambda: running.count("unstable_seconds", topic=topic) > 0, "so is for how long")
            assert running.count("unstable_records", topic=pool.work("standard")) == 0
            await stranger.abort_transaction()
            await eventually(lambda: running.count("unstable_records", topic=topic) == 0, "its end is told")
            assert running.count("unstable_seconds", topic=topic) == 0
    finally:
        await stranger.stop()


async def test_how_long_jobs_have_waited_and_run_is_told_and_how_old_its_views_are(pool: GpuPool) -> None:
    engine = ScriptedEngine()
    engine.gate.clear()
    await pool.produce([work_item("running", images=4)], partition=0)
    async with pool.consumer(engine) as running:
        await eventually(lambda: sum(map(len, engine.runs)) == 4, "one job runs")
        await pool.produce([work_item("waiting", images=40)], partition=0)
        for state in ("begun", "waiting"):
            await eventually(
                lambda state=state: running.count("oldest_job_seconds", lane="standard", state=state) > 0,  # type: ignore[misc]
                f"the age of what is {state}",
            )
        ages = [
            running.metrics.registry.get_sample_value("kiln_gpu_view_age_seconds", {"view": view})
            for view in ("cancels", "control")
        ]
        assert None not in ages
        engine.gate.set()
        await pool.wait_until_done()
        for state in ("begun", "waiting"):
            await eventually(
                lambda state=state: running.count("oldest_job_seconds", lane="standard", state=state) == 0,  # type: ignore[misc]
                f"nothing is {state} any more",
            )
