"""GPU consumers over a real broker, with an engine that takes no time."""

import asyncio
import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiokafka import TopicPartition

from gpu_consumer import results
from gpu_consumer.engine.protocol import Batch, DeviceInfo, Finished, Ready
from gpu_consumer.index import Change, Index
from gpu_consumer.intake import Names
from gpu_consumer.keeper import EngineUnusable
from gpu_consumer.ledger import Ledger
from gpu_consumer.models.digests import ModelUnavailable
from gpu_consumer.store.base import StoreUnavailable
from gpu_consumer.store.outcomes import OutcomeStore
from gpu_consumer.watch import NoProgress
from schemas.codec import encode
from schemas.outcome import Outcome, WorkRecord
from schemas.request import LANES
from schemas.topics import Catalogue
from schemas.work import WorkItem
from streams.kafka.admin import create_topics
from streams.kafka.clients import admin_client, group_consumer, transactional_producer
from streams.kafka.settings import KafkaSettings
from tests.integration.gpu_pool import Engine, GpuPool, Running, config, eventually, work_item
from tests.kafka import POOL


@pytest.fixture
def pool(kafka: KafkaSettings, catalogue: Catalogue, tmp_path: Path) -> GpuPool:
    return GpuPool(kafka, catalogue, tmp_path / "store")


def foreign_outcome(pool: GpuPool, item: WorkItem, offset: int) -> Outcome:
    """How another consumer may have ended the record at this offset of partition 0: as no engine here would."""
    ran_on = results.environment(Ready(DeviceInfo("another card", "", 0), {}))
    result = results.failed(item, "blank_output", "stored by another", results.Run(), ran_on, datetime.now(UTC))
    record = WorkRecord(topic=pool.work(item.lane), partition=0, offset=offset)
    return Outcome(job_id=item.job_id, record=record, results_partition=item.results_partition, result=result)


async def ledger_of(pool: GpuPool, partition: int, lane: str = "standard") -> Ledger:
    records = await pool.read(pool.catalogue.ledger(POOL), 4)
    mine = [record.value for record in records if record.partition == partition and record.key == lane.encode()]
    return Ledger.decode(mine[-1] or b"")


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


async def test_each_job_ends_in_one_result_that_is_what_is_stored(pool: GpuPool) -> None:
    items = [work_item(f"job{n}", lane=("interactive", "standard", "bulk")[n % 3], images=1 + n % 3) for n in range(40)]
    await pool.produce(items)
    async with pool.consumer() as running:
        found = await pool.wait_for_results(len(items))
        await pool.wait_until_done()
        await eventually(lambda: running.consumer.idle, "idle")
        assert running.consumer.ready() is None
    assert sorted(result.job_id for result in found) == sorted(item.job_id for item in items)
    for result in found:
        outcome = pool.store.lookup(result.job_id)
        assert outcome is not None
        assert outcome.result == result
        assert result.status == "succeeded"
        assert [artifact.seed for artifact in result.artifacts] == [7 + n for n in range(len(result.artifacts))]
    places = await pool.read(pool.catalogue.results, 2)
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
        assert [running.engine.runs_of(item) for item in items] == [1] * 8
    assert len(await pool.results()) == 8


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
        assert [item.prompt for batch in second.engine.batches_run for item in batch.items] == ["a late"]
    assert max(Counter(result.job_id for result in await pool.results()).values()) == 1


async def test_what_is_published_is_what_is_stored_not_what_is_in_memory(pool: GpuPool) -> None:
    item, engine = work_item("contested"), Engine()
    engine.gate.clear()
    await pool.produce([item], partition=0)
    async with pool.consumer(engine):
        await eventually(lambda: engine.runs_of(item) == 1, "the job runs")
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
        assert running.engine.runs_of(mine) == running.engine.runs_of(other) == 0
    assert stored.result in found
    assert sorted(result.request_id for result in found) == ["mine", "third"]


async def test_what_a_fenced_consumer_finished_is_published_by_the_next_owner(pool: GpuPool) -> None:
    item = work_item("long")
    first_engine = Engine()
    first_engine.gate.clear()
    await pool.produce([item], partition=0)
    async with pool.consumer(first_engine, mark_seconds_min=50, mark_poll_seconds=0.1) as first:
        await eventually(lambda: first_engine.runs_of(item) == 1, "the job runs")
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
        assert first_engine.runs_of(item) == 1


async def test_a_moved_partition_waits_for_the_holder_of_a_mark(pool: GpuPool) -> None:
    items = [work_item(f"job{n}") for n in range(4)]
    engine, second_engine = Engine(), Engine()
    engine.gate.clear()
    await pool.produce(items)  # one a partition
    marks: dict[str, Any] = {"mark_seconds_min": 50, "mark_poll_seconds": 0.1, "batch_wait_seconds": 0.5}
    async with pool.consumer(engine, **marks) as first:
        await eventually(lambda: bool(first.consumer._runner.running), "a batch runs")
        running = len(first.consumer._runner.running)
        async with pool.consumer(second_engine, **marks) as second:
            await eventually(lambda: len(list(second.consumer._owner.open)) == 2, "half of the indexes moved")
            await eventually(lambda: second.consumer.idle or second.consumer._backlog.count("held") > 0, "looked at")
            engine.gate.set()
            found = await pool.wait_for_results(4)
            await pool.wait_until_done()
            assert second.count("settled_total", status="succeeded") == 2
    assert {result.status for result in found} == {"succeeded"}
    assert [engine.runs_of(item) + second_engine.runs_of(item) for item in items] == [1] * 4
    assert running == 4
    assert first.count("stored_fenced_total") == 2


# case AIO-01
async def test_a_long_job_keeps_its_member_in_the_group(pool: GpuPool) -> None:
    pool.kafka = pool.kafka.model_copy(update={"max_poll_interval_ms": 5000})
    item, engine = work_item("long"), Engine()
    engine.gate.clear()
    await pool.produce([item], partition=0)
    async with pool.consumer(engine) as first, pool.consumer() as second:
        await eventually(lambda: engine.runs_of(item) == 1 or second.engine.runs_of(item) == 1, "the job runs")
        await asyncio.sleep(11)  # more than twice the interval: the thing itself is that time passes
        opened = [first.count("lease_openings_total", index=str(n)) for n in range(4)]
        engine.gate.set()
        await pool.wait_for_results(1)
        await pool.wait_until_done()
        assert [first.count("lease_openings_total", index=str(n)) for n in range(4)] == opened
        assert engine.runs_of(item) + second.engine.runs_of(item) == 1


# case KQ-04
async def test_a_picture_that_kills_engines_fails_and_its_neighbours_do_not(pool: GpuPool) -> None:
    items = [work_item(f"job{n}") for n in range(3)]
    poison = work_item("poison", prompt="poison apple")
    await pool.produce([*items, poison], partition=0)
    async with pool.consumer(batch_wait_seconds=0.3) as running:
        found = {result.request_id: result for result in await pool.wait_for_results(4)}
        await pool.wait_until_done()
        assert running.engine.runs_of(poison) == 3
        assert len(running.engine.batches_run[0].items) == 4
        assert all(len(batch.items) == 1 for batch in running.engine.batches_run[1:]), "alone from the second run on"
        assert running.count("engine_restarts_total") == 3
    assert (found["poison"].status, found["poison"].code) == ("failed", "engine_death")
    assert {found[item.request_id].status for item in items} == {"succeeded"}
    assert found["job0"].attempt == 2


# case KQ-04
async def test_deaths_are_remembered_when_the_process_ends_with_its_engine(pool: GpuPool) -> None:
    poison = work_item("poison")
    poison = poison.model_copy(update={"prompt": "poison apple"})
    await pool.produce([poison], partition=0)
    async with pool.consumer(restarts_per_hour_max=1) as first:
        with pytest.raises(ExceptionGroup) as died:
            await first.task
        assert died.group_contains(EngineUnusable)
    assert (await ledger_of(pool, 0)).marks[0].engine_deaths == 2
    async with pool.consumer() as second:
        (result,) = await pool.wait_for_results(1)
        await pool.wait_until_done()
        assert second.engine.runs_of(poison) == 1
    assert result.code == "engine_death"


# case KQ-01
# case KQ-02
async def test_a_record_that_cannot_be_read_is_dead_lettered_and_its_neighbours_run(pool: GpuPool) -> None:
    before, after = work_item("before"), work_item("after")
    bad: list[tuple[bytes | None, bytes | None]] = [(None, b"\x00\xff{"), (b"k", b'{"job_id"'), (b"k", None)]
    bad.append((b"k", encode(before).replace(before.job_id.encode(), b"../../etc")))
    await pool.produce([before], partition=0)
    await pool.produce_raw([(pool.work(), 0, key, value, ()) for key, value in bad])
    await pool.produce([after], partition=0)
    async with pool.consumer() as running:
        await pool.wait_for_results(2)
        await pool.wait_until_done()
        assert running.count("dead_letters_total", reason="malformed") == 4
    letters = await pool.read(pool.catalogue.dead_letters, 1)
    assert [(letter.key, letter.value) for letter in letters] == bad
    headers = dict(letters[0].headers)
    assert (headers["kiln-reason"], headers["kiln-offset"]) == (b"malformed", b"1")


async def test_a_newer_work_item_is_held_while_others_pass_and_ends_as_expired(pool: GpuPool) -> None:
    newer = work_item("newer", deadline=datetime.now(UTC) + timedelta(seconds=6))
    value = json.dumps(json.loads(encode(newer)) | {"schema_version": 2, "prompt": {"parts": []}}).encode()
    await pool.produce_raw([(pool.work(), 0, newer.job_id.encode(), value, newer.headers())])
    await pool.produce([work_item("fine")], partition=0)
    async with pool.consumer() as running:
        (fine,) = await pool.wait_for_results(1)
        assert fine.request_id == "fine"
        assert "upgrade" in (running.consumer.ready() or "")
        found = await pool.wait_for_results(2)
        await pool.wait_until_done()
        assert running.engine.runs_of(newer) == 0
        await eventually(lambda: running.consumer.ready() is None, "ready again")
    (expired,) = (result for result in found if result.status == "expired")
    assert expired.request_id == "newer"
    assert expired.deadline.replace(microsecond=0) == newer.deadline.replace(microsecond=0)


async def test_a_model_that_is_not_here_yet_holds_its_jobs_and_no_others(pool: GpuPool) -> None:
    class WithoutModel(Engine):
        missing = True

        async def run(self, batch: Batch) -> Finished:
            if batch.config.model.name == "new" and self.missing:
                raise ModelUnavailable("there is no model new; fetch it")
            return await super().run(batch)

    engine = WithoutModel()
    odd = config(name="odd", model={"name": "new", "digest": "sha256:" + "1" * 64})
    held = work_item("held", config=odd)
    await pool.produce([held, work_item("fine")], partition=0)
    async with pool.consumer(engine, hold_retry_seconds=0.3) as running:
        await pool.wait_for_results(1)
        await eventually(lambda: "fetch it" in (running.consumer.ready() or ""), "not ready")
        assert not (await ledger_of(pool, 0)).marks, "what is held has no slot"
        engine.missing = False
        found = await pool.wait_for_results(2)
        await pool.wait_until_done()
    assert {result.status for result in found} == {"succeeded"}


async def test_a_job_whose_deadline_is_over_does_not_run(pool: GpuPool) -> None:
    late = work_item("late", deadline=datetime.now(UTC) - timedelta(seconds=1))
    await pool.produce([late], partition=0)
    async with pool.consumer() as running:
        (result,) = await pool.wait_for_results(1)
        await pool.wait_until_done()
        assert running.engine.runs_of(late) == 0
    assert result.status == "expired"


async def test_a_job_expires_while_another_runs(pool: GpuPool) -> None:
    engine = Engine()
    engine.gate.clear()
    soon = work_item("soon", deadline=datetime.now(UTC) + timedelta(seconds=4), config=config(name="b", steps=5))
    await pool.produce([work_item("long")], partition=0)
    async with pool.consumer(engine):
        await eventually(lambda: len(engine.batches_run) == 1, "the long one runs")
        await pool.produce([soon], partition=0)
        (result,) = await pool.wait_for_results(1)
        assert (result.request_id, result.status) == ("soon", "expired")
        engine.gate.set()
        await pool.wait_for_results(2)
        await pool.wait_until_done()


async def test_a_store_that_is_down_fails_no_job(pool: GpuPool) -> None:
    class Down(OutcomeStore):
        down = True

        def settle(self, outcome: Outcome) -> Outcome:
            if self.down:
                raise StoreUnavailable("no answer")
            return super().settle(outcome)

        def lookup(self, job_id: str) -> Outcome | None:
            if self.down and started.is_set():
                raise StoreUnavailable("no answer")
            return super().lookup(job_id)

    started = asyncio.Event()
    store = Down(pool.store._store)
    items = [work_item(f"job{n}") for n in range(12)]
    await pool.produce(items[:4], partition=0)
    async with pool.consumer(store=store, store_backoff_seconds_max=0.2) as running:
        await eventually(lambda: "no answer" in (running.consumer.ready() or ""), "not ready")
        started.set()
        await pool.produce(items[4:])
        await eventually(lambda: running.count("store_retries_total") > 5, "it keeps trying")
        assert len(running.consumer._backlog.jobs) == 4, "nothing is taken that could not be settled"
        store.down = False
        found = await pool.wait_for_results(12)
        await pool.wait_until_done()
        assert [running.engine.runs_of(item) for item in items] == [1] * 12
    assert {result.status for result in found} == {"succeeded"}


# case KEDA-11
# case GPU-16
async def test_a_drain_finishes_what_runs_and_hands_back_the_rest(pool: GpuPool) -> None:
    engine = Engine()
    engine.gate.clear()
    items = [work_item(f"job{n}") for n in range(12)]
    await pool.produce(items, partition=0)
    async with pool.consumer(engine) as first:
        await eventually(lambda: len(engine.batches_run) == 1, "a batch runs")
        first.stop.set()
        await eventually(lambda: first.consumer.ready() == "draining", "draining")
        engine.gate.set()
        await first.task
    assert len(engine.batches_run) == 1
    assert len(await pool.results()) == 4
    ledger = await ledger_of(pool, 0)
    assert not ledger.marks
    async with pool.consumer() as second:
        await pool.wait_for_results(12)
        await pool.wait_until_done()
        assert [engine.runs_of(item) + second.engine.runs_of(item) for item in items] == [1] * 12


async def test_a_drain_does_not_wait_beyond_its_grace(pool: GpuPool) -> None:
    engine, item = Engine(), work_item("endless")
    engine.gate.clear()
    await pool.produce([item], partition=0)
    async with pool.consumer(engine, grace_seconds=2, close_seconds=1) as first:
        await eventually(lambda: engine.runs_of(item) == 1, "it runs")
        async with asyncio.timeout(15):
            await first.drain()
    assert not (await ledger_of(pool, 0)).marks, "handed back: the next owner starts at once and counts no death"
    async with pool.consumer() as second:
        await pool.wait_for_results(1)
        assert second.engine.runs_of(item) == 1


# case AIO-16
async def test_pauses_survive_rebalances(pool: GpuPool) -> None:
    engine = Engine()
    engine.gate.clear()
    items = [work_item(f"job{n}") for n in range(60)]
    await pool.produce(items)
    async with pool.consumer(engine, backlog_max=4, mark_seconds_min=1, mark_poll_seconds=0.1) as first:
        await eventually(lambda: len(engine.batches_run) == 1, "a batch runs")
        client = first.consumer._fetcher._consumer
        for _ in range(2):
            other = Engine()
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
            assert first.consumer._backlog.pictures("standard") <= 4 + len(engine.batches_run[0].items)
        assert len(engine.batches_run) == 1, "no second batch beside the first"
        engine.gate.set()
        await pool.wait_for_results(60)
        await pool.wait_until_done()
    assert max(Counter(result.job_id for result in await pool.results()).values()) == 1


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


async def end_fetching(running: Running[Engine]) -> None:
    """The client's own task ends without a word. What it had asked for is still delivered."""
    fetcher = running.consumer._fetcher._consumer._fetcher
    fetcher._fetch_task.cancel()
    await asyncio.wait({fetcher._fetch_task, *fetcher._pending_tasks})


# case AIO-04
async def test_a_client_whose_fetching_has_died_ends_the_process(pool: GpuPool) -> None:
    async with pool.consumer(progress_timeout_seconds=4) as running:
        await eventually(lambda: running.consumer._owner.all_open and running.consumer.ready() is None, "open")
        await eventually(lambda: bool(running.consumer._fetcher._consumer.assignment()), "assigned")
        await end_fetching(running)
        await pool.produce([work_item("lost")], partition=0)
        with pytest.raises(ExceptionGroup) as died:
            await running.task
        assert died.group_contains(NoProgress)
        assert "nothing moved" in (running.consumer.live() or "")
    async with pool.consumer():
        await pool.wait_for_results(1)


async def hold_one(pool: GpuPool, running: Running[Engine]) -> None:
    """A job that this consumer cannot run, and that waits for an upgrade."""
    newer = work_item("newer")
    value = json.dumps(json.loads(encode(newer)) | {"schema_version": 2}).encode()
    await pool.produce_raw([(pool.work(), 0, newer.job_id.encode(), value, newer.headers())])
    await eventually(lambda: running.consumer._backlog.count("held") == 1, "held")


# case AIO-04
async def test_a_job_that_is_held_does_not_hide_a_client_that_has_died(pool: GpuPool) -> None:
    async with pool.consumer(progress_timeout_seconds=4) as running:
        await hold_one(pool, running)
        await end_fetching(running)
        await pool.produce([work_item("lost")], partition=0)
        with pytest.raises(ExceptionGroup) as died:
            await asyncio.wait_for(running.task, 60)
        assert died.group_contains(NoProgress)


async def test_a_held_job_and_what_it_keeps_from_being_taken_are_a_named_wait(pool: GpuPool) -> None:
    async with pool.consumer(progress_timeout_seconds=4, run_ahead_max=4) as running:
        await hold_one(pool, running)
        await pool.produce([work_item(f"job{n}") for n in range(8)], partition=0)
        await pool.wait_for_results(3)
        await asyncio.sleep(7)  # beyond the time-out: the thing itself is that time passes
        assert running.consumer.live() is None
        assert not running.task.done()
        assert running.count("lag_records", lane="standard", index="0") == 9, "what is taken is not finished"


# case AIO-02
async def test_a_consumer_that_its_group_has_dropped_for_good_ends(pool: GpuPool) -> None:
    async with pool.consumer(progress_timeout_seconds=4) as first:
        await eventually(lambda: len(list(first.consumer._owner.open)) == 4, "open")
        coordinator = first.consumer._fetcher._consumer._coordinator
        coordinator._coordination_task.cancel()
        await coordinator._stop_heartbeat_task()
        async with pool.consumer() as second:
            await eventually(lambda: len(list(second.consumer._owner.open)) == 4, "the other one took over")
            with pytest.raises(ExceptionGroup) as died:
                await asyncio.wait_for(first.task, 60)
            assert died.group_contains(NoProgress, match="the group does not know")


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


def test_names_are_read_of_any_version() -> None:
    assert Names.model_validate({"tenant": "a", "request_id": "b", "results_partition": 1, "new": []}).tenant == "a"
