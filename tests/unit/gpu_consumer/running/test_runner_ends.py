"""How a run ends other than well: flaws, cancels, deadlines, missing models, a drain."""

import asyncio
from collections.abc import Collection
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from gpu_consumer.store.base import StoreRefused
from gpu_consumer.store.outcomes import StoredArtifact
from schemas.outcome import Outcome
from tests.unit.gpu_consumer.bench import Bench
from tests.unit.gpu_consumer.work import EPOCH, RunningClock, config, work_item


async def test_a_failure_is_a_line_with_its_job_config_and_memory(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    (job,) = bench.take(work_item("blank", prompt="blank secret", tenant="red"))
    await bench.idle()
    told = [vars(record) for record in caplog.records if vars(record).get("job_id") == job.id]
    assert [each["message"] for each in told] == [
        f"job {job.id}: blank_output",
        f"job {job.id} has failed: blank_output",
    ]
    for each in told:
        about = (each["config"], each["config_hash"], each["tenant"], each["request_id"], each["attempt"])
        assert about == (job.item.config.label, job.item.config_hash, "red", "blank", 1)
        assert "secret" not in str(each)
    assert told[0]["memory"] == {"allocated": 0, "reserved": 0, "predicted": 0, "free": 0}


async def test_a_job_fails_as_a_whole_and_costs_no_more(bench: Bench) -> None:
    jobs = bench.take(work_item("blank", prompt="blank", images=9), work_item("fine"))
    await bench.idle()
    found = bench.results()
    assert (found["blank"].status, found["blank"].code, found["fine"].status) == ("failed", "blank_output", "succeeded")
    assert sum(prompt == "blank" for run in bench.engine.seen for prompt in run) < 9
    assert not jobs[0].running


async def test_a_picture_that_the_store_never_takes_holds_up_no_other_result(tmp_path: Path) -> None:
    bench = Bench(tmp_path, store_threads=1, store_backoff_seconds_min=0.001, store_backoff_seconds_max=0.001)
    put, refuses = bench.store.put_artifact, True

    def refusing(job_id: str, *picture: Any) -> StoredArtifact:
        if job_id == jobs[0].id and refuses:
            raise StoreRefused("too large")
        return put(job_id, *picture)

    bench.store.put_artifact = refusing  # type: ignore[assignment, method-assign]
    await bench.start()
    jobs = bench.take(*(work_item(name, config=config(batching="whole")) for name in ("refused", "fine", "last")))
    await bench.until(lambda: len(bench.results()) == 2)
    assert bench.results().keys() == {"fine", "last"}
    refuses = False
    await bench.idle()
    assert bench.results()["refused"].status == "succeeded"
    await bench.end()


# Cancels and deadlines.


async def test_a_cancelled_job_leaves_the_queue_at_once(tmp_path: Path) -> None:
    bench = Bench(tmp_path, batch_wait_seconds=60)
    await bench.start()
    (job,) = bench.take(work_item("queued", config=config(batching="whole")))
    await bench.until(lambda: bench.backlog.count("queued"))
    bench.settler.cancel(job)
    await bench.idle()
    result = bench.results()["queued"]
    assert (result.status, result.message, result.gpu_seconds) == ("cancelled", "cancelled before it ran", 0.0)
    assert bench.engine.seen == []
    await bench.end()


async def test_a_cancelled_job_leaves_the_engine_at_its_next_step(bench: Bench) -> None:
    bench.engine.gate.clear()
    job, _ = bench.take(work_item("running", images=2), work_item("other"))
    await bench.until(lambda: sum(map(len, bench.engine.runs)) == 3 and job.started)
    bench.settler.cancel(job)
    await bench.until(bench.results)
    result = bench.results()["running"]
    assert (result.status, result.message) == ("cancelled", "cancelled while it ran")
    assert result.gpu_seconds == pytest.approx(0.25), "two times half of it"
    bench.engine.gate.set()
    await bench.idle()
    assert bench.results()["other"].status == "succeeded"
    assert sorted(bench.engine.left) == [f"{job.id}/{n}" for n in range(2)]


async def test_a_cancel_takes_the_pictures_that_still_wait_too(bench: Bench) -> None:
    bench.engine.gate.clear()
    (job,) = bench.take(work_item("many", images=20))
    await bench.until(lambda: sum(map(len, bench.engine.runs)) == 4)
    bench.settler.cancel(job)
    bench.settler.cancel(job)
    await bench.until(bench.results)
    assert len(bench.backlog.scheduler) == 0
    assert sum(map(len, bench.engine.runs)) == 4
    assert bench.index.ledger("standard").watermark == 1


async def test_a_picture_that_is_made_before_its_cancel_is_heard_wins(bench: Bench) -> None:
    (job,) = bench.take(work_item("made"))
    bench.engine.before = lambda: bench.settler.cancel(job)
    leave = bench.engine.leave

    async def too_late(keys: object) -> None:
        """It has ended: nothing to leave."""

    bench.engine.leave = too_late  # type: ignore[method-assign]
    await bench.idle()
    bench.engine.leave = leave  # type: ignore[method-assign]
    assert bench.results()["made"].status == "succeeded"


async def test_a_cancel_that_was_known_before_the_job_was_taken_costs_no_run(bench: Bench) -> None:
    bench.cancelled.add(b"blue/known")
    bench.take(work_item("known"), work_item("other"))
    await bench.idle()
    assert {name: result.status for name, result in bench.results().items()} == {
        "known": "cancelled",
        "other": "succeeded",
    }
    assert bench.engine.seen == [["a other"]]


async def test_a_held_job_that_is_cancelled_ends(bench: Bench) -> None:
    bench.engine.missing = {"tiny"}
    (job,) = bench.take(work_item("held"))
    await bench.until(lambda: bench.backlog.count("held"))
    bench.settler.cancel(job)
    await bench.idle()
    assert bench.results()["held"].status == "cancelled"


async def test_an_expired_job_is_settled_as_such(bench: Bench) -> None:
    bench.take(work_item("late", deadline=EPOCH - timedelta(seconds=1)))
    await bench.idle()
    assert bench.results()["late"].status == "expired"


async def test_a_deadline_reaches_what_runs(bench: Bench) -> None:
    bench.engine.gate.clear()
    job, _ = bench.take(work_item("slow", deadline=EPOCH + timedelta(seconds=5)), work_item("other"))
    await bench.until(lambda: sum(map(len, bench.engine.runs)) == 2 and job.started)
    bench.clock.seconds = 5.0
    bench.backlog.changed()
    await bench.until(bench.results)
    result = bench.results()["slow"]
    assert (result.status, result.message) == ("expired", "the deadline passed while the job ran")
    assert result.gpu_seconds == pytest.approx(0.125)
    bench.engine.gate.set()
    await bench.idle()
    assert bench.results()["other"].status == "succeeded"


async def test_what_expires_while_it_is_claimed_does_not_run(bench: Bench) -> None:
    lookup = bench.store.lookup

    def slow(job_id: str) -> Outcome | None:
        if bench.backlog.jobs[job_id].running:
            bench.clock.seconds = 10.0
        return lookup(job_id)

    bench.store.lookup = slow  # type: ignore[method-assign]
    bench.take(work_item("soon", deadline=EPOCH + timedelta(seconds=5)))
    await bench.idle()
    assert bench.engine.seen == []
    assert bench.results()["soon"].status == "expired"
    assert bench.index.ledger("standard").watermark == 1


# Others.


async def test_a_model_that_is_missing_holds_its_jobs_without_asking_for_each(bench: Bench) -> None:
    bench.engine.missing = {"tiny"}
    bench.take(*(work_item(f"job{n}") for n in range(20)))
    await bench.until(lambda: bench.backlog.count("held") == 20)
    assert sum(len(batch.items) for batch in bench.engine.batches) == 5
    assert not bench.index.ledger("standard").marks, "what is held has no slot"
    assert set(bench.backlog.problems()) == {"there is no tiny"}
    bench.engine.missing = set()
    bench.clock.seconds = 61.0
    for job_id in bench.backlog.scheduler.expired(bench.clock.steady()):
        bench.settler.due(job_id)
    await bench.idle()
    assert len(bench.results()) == 20


async def test_a_kind_that_is_refused_does_not_hold_others_of_its_model(bench: Bench) -> None:
    """A shape that the model cannot make, as long as anybody asks for it."""
    refused = config(width=72)
    bench.engine.missing = {refused.kind}
    bench.take(*(work_item(f"bad{n}", config=refused) for n in range(3)))
    await bench.until(lambda: bench.backlog.count("held") == 3)
    bench.take(work_item("good"))
    await bench.until(lambda: "good" in bench.results())
    assert bench.backlog.count("held") == 3


async def test_a_drain_ends_what_has_a_slot_and_hands_back_the_rest(bench: Bench) -> None:
    bench.engine.gate.clear()
    jobs = bench.take(*(work_item(f"job{n}") for n in range(12)))
    await bench.until(
        lambda: sum(len(batch.items) for batch in bench.engine.batches) == 5 and sum(job.started for job in jobs) == 4
    )
    bench.runner.stop()
    await bench.until(lambda: bench.engine.left)
    bench.engine.gate.set()
    await asyncio.wait_for(bench.running, 60)
    await bench.until(lambda: len(bench.results()) == 4)
    assert sum(map(len, bench.engine.runs)) == 4
    assert len(bench.backlog.scheduler) == 8


async def test_a_deadline_takes_the_pictures_that_still_wait_too(bench: Bench) -> None:
    bench.engine.gate.clear()
    bench.take(work_item("slow", images=20, deadline=EPOCH + timedelta(seconds=5)))
    await bench.until(lambda: sum(map(len, bench.engine.runs)) == 4)
    leave, waiting = bench.engine.leave, list[int]()

    async def seen(keys: Collection[str]) -> None:
        waiting.append(len(bench.backlog.scheduler))
        await leave(keys)

    bench.engine.leave = seen  # type: ignore[method-assign]
    bench.clock.seconds = 5.0
    bench.backlog.changed()
    await bench.until(bench.results)
    assert waiting == [0]
    assert bench.results()["slow"].status == "expired"


async def test_what_is_claimed_of_an_index_that_is_lost_meanwhile_does_not_run(bench: Bench) -> None:
    write = bench.index.write

    async def lost(changes: object) -> None:
        bench.index.write = write  # type: ignore[method-assign]
        bench.lose(bench.index)
        await write(changes)  # type: ignore[arg-type]

    bench.index.write = lost  # type: ignore[method-assign]
    bench.take(work_item("lost"))
    await bench.until(lambda: not bench.backlog.jobs)
    assert bench.engine.batches == []


# Pauses.


async def test_while_the_pool_is_paused_what_runs_ends_and_nothing_is_begun(bench: Bench) -> None:
    bench.engine.gate.clear()
    bench.take(work_item("running"))
    await bench.until(lambda: bench.engine.runs)
    bench.paused_until = lambda: float("inf")
    bench.take(work_item("waiting"), offset=1)
    await bench.until(lambda: bench.backlog.count("queued") == 2)
    bench.engine.gate.set()
    await bench.until(bench.results)
    assert set(bench.results()) == {"running"}
    assert len(bench.engine.batches) == 1
    bench.paused_until = lambda: None
    bench.backlog.changed()
    await bench.idle()
    assert bench.results()["waiting"].attempt == 1, "a pause charges nobody"


async def test_a_pause_that_ends_by_itself_wakes_the_runner(tmp_path: Path) -> None:
    clock = RunningClock()
    bench = Bench(tmp_path, clock=clock)
    until = clock.steady() + 0.2
    bench.paused_until = lambda: until if clock.steady() < until else None  # nobody tells that it is over
    await bench.start()
    bench.take(work_item("a"))
    await bench.idle()
    assert bench.results()["a"].status == "succeeded"
    await bench.end()


async def test_a_job_that_waits_for_the_end_of_a_pause_still_expires(bench: Bench) -> None:
    bench.paused_until = lambda: float("inf")
    bench.take(work_item("late", deadline=EPOCH + timedelta(seconds=5)))
    await bench.until(lambda: bench.backlog.count("queued"))
    bench.clock.seconds = 6
    bench.expire()
    await bench.until(bench.results)
    assert bench.results()["late"].status == "expired"


async def test_what_was_dropped_says_by_what_it_ended(bench: Bench) -> None:
    bench.engine.gate.clear()
    (running,) = bench.take(work_item("running"))
    await bench.until(lambda: running.started)
    bench.settler.cancel(running, "tenant 'blue' was dropped (a leaked key)")
    await bench.until(bench.results)
    assert bench.results()["running"].message == "cancelled while it ran: tenant 'blue' was dropped (a leaked key)"
