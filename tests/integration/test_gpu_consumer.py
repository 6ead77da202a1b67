"""What a pool of GPU consumers promises, over a real broker: each job ends once, in what is stored."""

from datetime import UTC, datetime, timedelta

from gpu_consumer.intake import Names
from schemas.codec import encode
from schemas.progress import decode_progress
from streams.kafka.clients import transactional_producer
from tests.integration.gpu_pool import GpuPool, config, eventually, foreign_outcome, ledger_of, work_item
from tests.kafka import POOL
from tests.scripted import ScriptedEngine


async def test_each_job_ends_in_one_result_that_is_what_is_stored(pool: GpuPool) -> None:
    items = [work_item(f"job{n}", lane=("interactive", "standard", "bulk")[n % 3], images=1 + n % 3) for n in range(40)]
    await pool.produce(items)
    async with pool.consumer() as running:
        found = await pool.wait_for_results(len(items))
        await pool.wait_until_done()
        await eventually(lambda: running.consumer.idle, "idle")
        await eventually(lambda: running.consumer.ready() is None, "ready")
    assert sorted(result.job_id for result in found) == sorted(item.job_id for item in items)
    for result in found:
        outcome = pool.store.lookup(result.job_id)
        assert outcome is not None
        assert outcome.result == result
        assert result.status == "succeeded"
        assert [artifact.seed for artifact in result.artifacts] == [7 + n for n in range(len(result.artifacts))]
    places = await pool.read_decided(pool.catalogue.results, 2)
    assert {(record.partition, record.key) for record in places} == {(1, b"blue")}


async def test_repeats_in_work_cost_nothing(pool: GpuPool) -> None:
    items = [work_item(f"job{n}") for n in range(8)]
    await pool.produce([*items, *items[:4]], partition=0)
    async with pool.consumer() as running:
        await pool.wait_for_results(8)
        await pool.wait_until_done()
        await pool.produce(items, partition=0)  # long after they are settled
        await pool.wait_until_done()
        await eventually(lambda: running.count("repeats_total") == 12, "every repeat is finished")
        assert [running.engine.runs_of(item.job_id) for item in items] == [1] * 8
    assert len(await pool.read_decided(pool.catalogue.results, 2)) == 8


async def test_what_is_published_is_what_is_stored_not_what_is_in_memory(pool: GpuPool) -> None:
    item, engine = work_item("contested"), ScriptedEngine()
    engine.gate.clear()
    await pool.produce([item], partition=0)
    async with pool.consumer(engine):
        await eventually(lambda: engine.runs_of(item.job_id) == 1, "the job runs")
        stored = pool.store.settle(foreign_outcome(pool, item, offset=0))
        engine.gate.set()
        (result,) = await pool.wait_for_results(1)
        await pool.wait_until_done()
    assert result == stored.result


async def test_an_outcome_of_this_record_is_published_without_a_run(pool: GpuPool) -> None:
    mine, other = work_item("mine"), work_item("other")
    await pool.produce([mine, other, work_item("third")], partition=0)
    stored = pool.store.settle(foreign_outcome(pool, mine, offset=0))
    pool.store.settle(foreign_outcome(pool, other, offset=77))  # of another record of the same job
    async with pool.consumer() as running:
        found = await pool.wait_for_results(2)
        await pool.wait_until_done()
        assert running.engine.runs_of(mine.job_id) == running.engine.runs_of(other.job_id) == 0
    assert stored.result in found
    assert sorted(result.request_id for result in found) == ["mine", "third"]


async def test_a_job_whose_deadline_is_over_does_not_run(pool: GpuPool) -> None:
    late = work_item("late", deadline=datetime.now(UTC) - timedelta(seconds=1))
    await pool.produce([late], partition=0)
    async with pool.consumer() as running:
        (result,) = await pool.wait_for_results(1)
        await pool.wait_until_done()
        assert running.engine.runs_of(late.job_id) == 0
    assert result.status == "expired"


async def test_a_job_expires_while_another_runs(pool: GpuPool) -> None:
    engine = ScriptedEngine()
    engine.gate.clear()
    soon = work_item("soon", deadline=datetime.now(UTC) + timedelta(seconds=600), config=config(name="b", bucket=2))
    long = work_item("long")
    await pool.produce([long], partition=0)
    async with pool.consumer(engine) as running, pool.telling_steps(running):
        await eventually(lambda: len(engine.runs) == 1, "the long one runs")
        await pool.produce([soon], partition=0)
        await eventually(lambda: running.consumer._backlog.count("queued") == 2, "the other one waits")
        await pool.wait_for_progress("long", "started", 0)
        for made in (1, 3):
            engine.say_steps({f"{long.job_id}/0": made})
            await pool.wait_for_progress("long", "step", made)
        await pool.wait_for_progress("soon", "queued", 0)
        running.later(601)
        (result,) = await pool.wait_for_results(1)
        assert (result.request_id, result.status) == ("soon", "expired")
        engine.gate.set()
        await pool.wait_for_results(2)
        await pool.wait_until_done()
    told = await pool.read(pool.catalogue.progress, 2)
    events = [decode_progress(record.value or b"") for record in told]
    of_long = [(event.state, event.step, event.steps) for event in events if event.request_id == "long"]
    assert of_long[-3:] == [("started", 0, 4), ("step", 1, 4), ("step", 3, 4)]
    assert of_long[:-3] in ([], [("queued", 0, 4)]), "if it was looked at before the engine had it"
    assert [event.state for event in events if event.request_id == "soon"] == ["queued"]
    assert not [record for record in told if b"a long" in record.value or b"a soon" in record.value], "a prompt"


async def test_a_deadline_reaches_what_runs(pool: GpuPool) -> None:
    engine = ScriptedEngine()
    engine.gate.clear()
    soon = work_item("soon", deadline=datetime.now(UTC) + timedelta(seconds=600))
    await pool.produce([soon, work_item("long")], partition=0)
    async with pool.consumer(engine) as running:
        await eventually(lambda: sum(map(len, engine.runs)) == 2, "both run")
        running.later(601)
        (result,) = await pool.wait_for_results(1)
        assert (result.request_id, result.status) == ("soon", "expired")
        assert result.gpu_seconds == engine.gpu_seconds / 2, "as far as it came"
        engine.gate.set()
        found = await pool.wait_for_results(2)
        await pool.wait_until_done()
    assert {result.status for result in found} == {"expired", "succeeded"}


def test_names_are_read_of_any_version() -> None:
    assert Names.model_validate({"tenant": "a", "request_id": "b", "results_partition": 1, "new": []}).tenant == "a"


# case KQ-13
# case FST-04
async def test_markers_and_aborted_records_are_holes_that_end(pool: GpuPool) -> None:
    producer = transactional_producer(pool.kafka, f"{pool.catalogue.work(POOL, 'bulk')}.odd")
    await producer.start()
    items = [work_item(f"job{n}") for n in range(6)]
    for n, item in enumerate(items):
        await producer.begin_transaction()
        await (await producer.send(pool.work(), encode(item), partition=0, headers=list(item.headers())))
        await (producer.abort_transaction() if n % 2 else producer.commit_transaction())
    await producer.stop()
    async with pool.consumer() as running:
        await pool.wait_for_results(3)
        await eventually(lambda: running.count("holes_total") == 9, "6 markers and 3 aborted records passed over")
        await pool.wait_until_done()
    assert (await ledger_of(pool, 0)).watermark == 12
