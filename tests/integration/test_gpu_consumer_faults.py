"""What goes wrong in one job, one engine or the store, and what does not follow from it."""

import asyncio
import json
from datetime import UTC, datetime, timedelta

import pytest

from gpu_consumer.running.keeper import EngineUnusable
from gpu_consumer.store.base import StoreUnavailable
from gpu_consumer.store.outcomes import OutcomeStore
from schemas.codec import encode
from schemas.outcome import Outcome
from tests.integration.gpu_pool import GpuPool, config, eventually, ledger_of, work_item
from tests.scripted import ScriptedEngine


# case KQ-04
async def test_a_picture_that_kills_engines_fails_and_its_neighbours_do_not(pool: GpuPool) -> None:
    items = [work_item(f"job{n}") for n in range(3)]
    poison = work_item("poison", prompt="poison apple")
    await pool.produce([*items, poison], partition=0)
    async with pool.consumer(batch_wait_seconds=0.3) as running:
        found = {result.request_id: result for result in await pool.wait_for_results(4)}
        await pool.wait_until_done()
        with_it = [run for run in running.engine.seen if "poison apple" in run]
        assert len(with_it) == 3, "it does not kill a fourth time"
        assert [len(run) for run in with_it[1:]] == [1, 1], "alone from the second run on"
        await eventually(lambda: running.count("engine_restarts_total") == 3, "started again after each")
    assert (found["poison"].status, found["poison"].code) == ("failed", "engine_death")
    assert {found[item.request_id].status for item in items} == {"succeeded"}
    assert {found[item.request_id].attempt for item in items} <= {1, 2}


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
        assert second.engine.runs_of(poison.job_id) == 1
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
        await eventually(lambda: running.count("dead_letters_total", reason="malformed") == 4, "each is counted")
    letters = await pool.read_decided(pool.catalogue.dead_letters, 1)
    assert [(letter.key, letter.value) for letter in letters] == bad
    headers = dict(letters[0].headers)
    assert (headers["kiln-reason"], headers["kiln-offset"]) == (b"malformed", b"1")


async def test_a_newer_work_item_is_held_while_others_pass_and_ends_as_expired(pool: GpuPool) -> None:
    async with pool.consumer() as running:
        await eventually(lambda: running.consumer.ready() is None, "ready")
        newer = work_item("newer", deadline=datetime.now(UTC) + timedelta(seconds=600))
        value = json.dumps(json.loads(encode(newer)) | {"schema_version": 2, "prompt": {"parts": []}}).encode()
        await pool.produce_raw([(pool.work(), 0, newer.job_id.encode(), value, newer.headers())])
        await pool.produce([work_item("fine")], partition=0)
        (fine,) = await pool.wait_for_results(1)
        assert fine.request_id == "fine"
        await eventually(lambda: "upgrade" in (running.consumer.ready() or ""), "not ready")
        running.later(601)
        found = await pool.wait_for_results(2)
        await pool.wait_until_done()
        assert running.engine.runs_of(newer.job_id) == 0
        await eventually(lambda: running.consumer.ready() is None, "ready again")
    (expired,) = (result for result in found if result.status == "expired")
    assert expired.request_id == "newer"
    assert expired.deadline.replace(microsecond=0) == newer.deadline.replace(microsecond=0)


async def test_a_model_that_is_not_here_yet_holds_its_jobs_and_no_others(pool: GpuPool) -> None:
    engine = ScriptedEngine()
    engine.missing = {"new"}
    odd = config(name="odd", model={"name": "new", "digest": "sha256:" + "1" * 64})
    held = work_item("held", config=odd)
    await pool.produce([held, work_item("fine")], partition=0)
    async with pool.consumer(engine, hold_retry_seconds=0.3) as running:
        await pool.wait_for_results(1)
        await eventually(lambda: "there is no new" in (running.consumer.ready() or ""), "not ready")

        async def no_mark() -> bool:  # but for a moment at each retry
            return not (await ledger_of(pool, 0)).marks

        await eventually(no_mark, "what is held has no slot")
        engine.missing = set()
        found = await pool.wait_for_results(2)
        await pool.wait_until_done()
    assert {result.status for result in found} == {"succeeded"}


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
        await eventually(lambda: len(running.consumer._backlog.jobs) == 4, "all of them are taken")
        await eventually(lambda: "no answer" in (running.consumer.ready() or ""), "not ready")
        started.set()
        await pool.produce(items[4:])
        await eventually(lambda: running.count("store_retries_total") > 5, "it keeps trying")
        assert len(running.consumer._backlog.jobs) == 4, "nothing is taken that could not be settled"
        store.down = False
        found = await pool.wait_for_results(12)
        await pool.wait_until_done()
        assert [running.engine.runs_of(item.job_id) for item in items] == [1] * 12
    assert {result.status for result in found} == {"succeeded"}
