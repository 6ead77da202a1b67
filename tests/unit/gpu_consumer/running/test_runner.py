"""Claiming, running and settling, without a broker."""

import asyncio
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from gpu_consumer import results
from gpu_consumer.ledger import Mark
from schemas.outcome import Outcome
from tests.unit.gpu_consumer.bench import ME, Bench
from tests.unit.gpu_consumer.work import EPOCH, config, job_of, work_item


async def test_what_is_marked_is_finished_and_no_mark_stays(bench: Bench) -> None:
    marked: list[dict[int, Mark]] = []
    bench.engine.before = lambda: marked.append(dict(bench.index.ledger("standard").marks))
    bench.take(*(work_item(f"job{n}") for n in range(6)))
    await bench.idle()
    assert marked[0].keys() == set(range(5)), "a bucket, and one ahead"
    assert {mark.incarnation for mark in marked[0].values()} == {ME}
    ledger = bench.index.ledger("standard")
    assert (ledger.watermark, ledger.marks) == (6, {})
    assert len(bench.results()) == 6


async def test_a_free_slot_finds_the_next_picture_there(bench: Bench) -> None:
    bench.engine.gate.clear()
    bench.take(*(work_item(f"job{n}") for n in range(12)))
    await bench.until(lambda: sum(len(batch.items) for batch in bench.engine.batches) == 5 and bench.engine.seen)
    assert bench.engine.seen == [[f"a job{n}" for n in range(4)]], "the fifth waits in the engine"
    bench.engine.gate.set()
    await bench.idle()
    assert len(bench.results()) == 12


async def test_quick_pictures_are_claimed_for_as_long_as_a_claim_takes(tmp_path: Path) -> None:
    bench = Bench(tmp_path, claim_seconds=2.0, ahead_batches_max=4)  # ten pictures of 0.2 s
    await bench.start()
    bench.engine.gate.clear()
    bench.take(*(work_item(f"job{n}") for n in range(50)))
    await bench.until(lambda: sum(len(batch.items) for batch in bench.engine.batches) == 14)
    bench.engine.gpu_seconds = 0.0
    bench.engine.gate.set()
    await bench.idle()
    assert len(bench.results()) == 50
    assert max(len(batch.items) for batch in bench.engine.batches) <= 4 + 4 * 4, "however quick"
    await bench.end()


async def test_configurations_of_one_kind_share_the_slots(bench: Bench) -> None:
    bench.engine.gate.clear()
    bench.take(*(work_item(f"job{n}", config=config(name=f"c{n}", steps=4 + n)) for n in range(3)))
    await bench.until(lambda: sum(map(len, bench.engine.runs)) == 3)
    assert len({batch.config.config_hash for batch in bench.engine.batches}) == 3
    bench.engine.gate.set()
    await bench.idle()


async def test_a_batch_that_runs_whole_is_waited_for(tmp_path: Path) -> None:
    bench = Bench(tmp_path, claim_seconds=0.1)
    await bench.start()
    marked: list[set[int]] = []
    bench.engine.before = lambda: marked.append(set(bench.index.ledger("standard").marks))
    bench.take(*(work_item(f"job{n}", config=config(batching="whole")) for n in range(6)))
    await bench.idle()
    assert marked[0] == {0, 1, 2, 3}
    assert bench.engine.seen == [[f"a job{n}" for n in range(4)], ["a job4", "a job5"]]
    await bench.end()


async def test_short_whole_batches_are_claimed_together(tmp_path: Path) -> None:
    bench = Bench(tmp_path, claim_seconds=1.0)
    await bench.start()
    bench.engine.gate.clear()
    bench.take(*(work_item(f"job{n}", config=config(batching="whole")) for n in range(16)))
    await bench.until(lambda: len(bench.engine.batches) == 2)  # 0.8 s each
    assert [len(batch.items) for batch in bench.engine.batches] == [4, 4]
    bench.engine.gate.set()
    await bench.idle()
    await bench.end()


async def test_pictures_of_one_job_over_many_slots_are_one_result(bench: Bench) -> None:
    bench.take(work_item("many", images=10))
    await bench.idle()
    (result,) = bench.results().values()
    assert [artifact.seed for artifact in result.artifacts] == list(range(7, 17))
    assert result.gpu_seconds == pytest.approx(2.5)
    assert result.timings["denoise"] == pytest.approx(2.5)
    assert result.timings["store"] >= 0
    assert result.peak_vram_bytes == 5


async def test_what_jobs_waited_is_told_by_tenant(bench: Bench) -> None:
    """Case ADM-05: one tenant that starves beside others is seen. A job of three pictures waited once."""
    bench.clock.seconds += 60
    bench.take(work_item("late", tenant="red", images=3), work_item("next", accepted_at=bench.clock.now()))
    await bench.idle()
    waited = {tenant: bench.value("tenant_wait_seconds_total", tenant=tenant) for tenant in ("red", "other")}
    assert waited == {"red": pytest.approx(60), "other": pytest.approx(0)}
    assert [bench.value("tenant_begun_total", tenant=tenant) for tenant in waited] == [1, 1]


async def test_what_pictures_cost_is_learned_and_told(bench: Bench) -> None:
    made = config()
    assert bench.backlog.expected.seconds(made) == 0.2
    bench.take(work_item("one", tenant="red"), work_item("two"))
    await bench.idle()
    assert bench.backlog.expected.seconds(made) == pytest.approx(0.25)
    assert len(bench.backlog.expected._runs[made.config_hash]) == 2, "how long each took from its slot on"
    assert bench.value("gpu_seconds_total", tenant="red") == pytest.approx(0.25)
    assert bench.value("gpu_seconds_total", tenant="other") == pytest.approx(0.25)  # of a tenant that is not declared
    assert bench.value("config_gpu_seconds_total", config=made.label) == pytest.approx(0.5)
    assert bench.value("cost_usd_total", tenant="red") == pytest.approx(0.25 / 3600)
    assert bench.value("config_cost_usd_total", config=made.label) == pytest.approx(0.5 / 3600)
    ended = bench.results()
    assert {(each.gpu_seconds, each.cost_usd, each.pool) for each in ended.values()} == {(0.25, 0.000069, "a")}
    for each in ended.values():  # what is stored is what was published
        assert (stored := bench.store.lookup(each.job_id)) is not None
        assert stored.result == each
    assert bench.backlog.scheduler._shares.tenant("standard", "red") == pytest.approx(0.25)


async def test_the_engine_s_pulses_are_metrics(bench: Bench) -> None:
    bench.take(*(work_item(f"job{n}") for n in range(3)))
    await bench.idle()
    assert bench.value("pictures_total") == 3
    assert bench.value("model_loads_total") == 1


async def test_a_fenced_consumer_stores_a_success_and_nothing_else(bench: Bench) -> None:
    bench.engine.before = lambda: setattr(bench.index, "void", True)
    made, blank = work_item("made"), work_item("blank", prompt="blank")
    bench.take(made, blank, work_item("half", images=40, config=config(steps=7)))
    await bench.idle()
    assert bench.results() == {}
    stored = bench.store.lookup(made.job_id)
    assert stored is not None
    assert (stored.result.status, stored.record.offset) == ("succeeded", 0)
    assert bench.store.lookup(blank.job_id) is None
    assert not bench.backlog.jobs, "what cannot be settled here is forgotten"


async def test_what_may_run_elsewhere_is_polled_and_runs_after_its_expected_end(bench: Bench) -> None:
    now_ms = bench.clock.wall_ms()
    bench.index.ledger("standard").marks[0] = Mark("other", now_ms, now_ms + 5000)
    bench.take(work_item("moved"))
    await bench.idle()
    assert bench.backlog.count("held") == 1
    for _ in range(6):
        bench.clock.seconds += 1.0
        for job_id in bench.backlog.scheduler.expired(bench.clock.steady()):
            bench.settler.due(job_id)
        await bench.idle()
    assert bench.results()["moved"].attempt == 2, "the other died, or was slower than expected"


async def test_a_job_that_killed_too_many_consumers_fails(bench: Bench) -> None:
    bench.index.ledger("standard").marks[0] = Mark("other", 0, 0, consumer_deaths=10)
    bench.take(work_item("deadly"))
    await bench.idle()
    result = bench.results()["deadly"]
    assert (result.status, result.code) == ("failed", "engine_death")
    assert not bench.engine.seen


async def test_what_may_be_finished_elsewhere_is_not_given_up_for_its_former_deaths(bench: Bench) -> None:
    now_ms = bench.clock.wall_ms()
    bench.index.ledger("standard").marks[0] = Mark("other", now_ms, now_ms + 5000, consumer_deaths=10)
    bench.take(work_item("slow"))
    await bench.idle()
    assert (bench.backlog.count("held"), bench.results()) == (1, {})


async def test_a_job_that_is_unknown_here_is_held_whatever_it_did_to_others(bench: Bench) -> None:
    bench.index.ledger("standard").marks[0] = Mark("", 0, 0, engine_deaths=3)
    newer = job_of(work_item("newer"), bench.index)
    newer.work = replace(newer.work, item=None, problem="upgrade this consumer")
    bench.settler.admit([newer])
    await bench.idle()
    assert bench.backlog.problems() == ["upgrade this consumer"]


async def test_an_outcome_that_appeared_since_the_job_was_taken_costs_no_run(tmp_path: Path) -> None:
    bench = Bench(tmp_path, batch_wait_seconds=5)
    await bench.start()
    (job,) = bench.take(work_item("contested", config=config(batching="whole")))
    await bench.until(lambda: bench.backlog.count("queued"))
    assert bench.settler.environment is not None
    ended = results.failed(
        job.item, "blank_output", "elsewhere", results.Run(), bench.settler.environment, bench.spending.price, EPOCH
    )
    bench.store.settle(Outcome(job_id=job.id, record=job.record, results_partition=1, result=ended))
    bench.clock.seconds = 6
    bench.backlog.changed()
    await bench.idle()
    assert bench.engine.seen == []
    assert bench.results() == {"contested": ended}
    await bench.end()


async def test_an_outcome_that_appears_while_the_job_runs_wins(bench: Bench) -> None:
    bench.engine.gate.clear()
    (job,) = bench.take(work_item("contested", images=12))
    await bench.until(lambda: sum(map(len, bench.engine.runs)) == 4)
    assert bench.settler.environment is not None
    ended = results.failed(
        job.item, "blank_output", "elsewhere", results.Run(), bench.settler.environment, bench.spending.price, EPOCH
    )
    bench.store.settle(Outcome(job_id=job.id, record=job.record, results_partition=1, result=ended))
    bench.engine.gate.set()
    await bench.idle()
    assert bench.results() == {"contested": ended}
    assert not bench.backlog.jobs


async def test_a_job_is_looked_up_and_marked_once_while_it_runs(bench: Bench) -> None:
    lookup, asked = bench.store.lookup, list[str]()

    def counted(job_id: str) -> Outcome | None:
        asked.append(job_id)
        return lookup(job_id)

    bench.store.lookup = counted  # type: ignore[method-assign]
    bench.engine.gate.clear()
    bench.take(work_item("many", images=40))
    await bench.until(lambda: sum(map(len, bench.engine.runs)) == 4)
    bench.engine.before = bench.engine.gate.clear
    engine, scheduler = bench.engine, bench.backlog.scheduler
    while not bench.results():  # so slowly that one waits beside those that run before they are gone
        await bench.until(lambda: bench.results() or (engine._running and engine._waiting) or not len(scheduler))
        engine.gate.set()
        await bench.until(lambda: not engine.gate.is_set() or bench.results())
    assert len(asked) <= 3, "when it is taken, and when it is claimed"


async def test_tenants_take_turns_even_if_pictures_cost_nothing(bench: Bench) -> None:
    bench.engine.gpu_seconds = 0.0
    bench.engine.gate.clear()
    bench.take(work_item("first", images=5))
    await bench.until(lambda: sum(map(len, bench.engine.runs)) == 4)
    names = [f"{tenant}{n}" for tenant in ("ann", "zoe") for n in range(40)]
    bench.take(*(work_item(name, tenant=name[:3]) for name in names), offset=1)
    await bench.until(lambda: len(bench.backlog.jobs) == 81)
    bench.engine.gate.set()
    await bench.idle()
    order = [item.prompt.split()[1][:3] for run in bench.engine.runs for item in run if "first" not in item.prompt]
    assert 15 <= order[:40].count("zoe") <= 25


async def test_nothing_is_claimed_while_too_much_is_unsettled(tmp_path: Path) -> None:
    """A store that is slow must not let finished pictures pile up."""
    bench = Bench(tmp_path, settling_max=4)
    await bench.start()
    settle, may_settle, asked = bench.store.settle, threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def slow(outcome: Outcome) -> Outcome:
        loop.call_soon_threadsafe(asked.set)
        may_settle.wait(60)
        return settle(outcome)

    bench.store.settle = slow  # type: ignore[method-assign]
    bench.take(*(work_item(f"job{n}") for n in range(12)))
    await asyncio.wait_for(asked.wait(), 60)
    for _ in range(100):
        await asyncio.sleep(0)
    assert sum(map(len, bench.engine.runs)) == 4
    may_settle.set()
    await bench.idle()
    assert len(bench.results()) == 12
    await bench.end()


async def test_marks_hold_for_as_long_as_what_is_inside_may_run(tmp_path: Path) -> None:
    bench = Bench(tmp_path, mark_seconds_min=0.001, mark_factor=5)
    await bench.start()
    marks: list[dict[int, Mark]] = []
    bench.engine.before = lambda: marks.append(dict(bench.index.ledger("standard").marks))
    bench.take(*(work_item(f"job{n}") for n in range(4)))
    await bench.idle()
    assert {mark.until_ms - mark.since_ms for mark in marks[0].values()} == {4000}, "4 pictures of 0.2 s, times 5"
    await bench.end()


async def test_a_mark_is_renewed_while_its_picture_runs(bench: Bench) -> None:
    bench.engine.gate.clear()
    (job,) = bench.take(work_item("long"))
    await bench.until(lambda: bench.engine.runs)
    marks = bench.index.ledger("standard").marks
    first = marks[0]
    bench.clock.seconds += 6.0
    bench.backlog.changed()
    await bench.until(lambda: marks[0] != first)
    assert marks[0].until_ms == first.until_ms + 6000
    assert marks[0].consumer_deaths == 0
    bench.engine.gate.set()
    await bench.idle()
    assert bench.runner._claims.renew_at() is None, "nothing is kept of what has ended"
    assert bench.results()["long"].attempt == 1
    assert not job.running


async def test_a_mark_of_an_index_that_was_lost_is_not_renewed_for_ever(bench: Bench) -> None:
    bench.engine.gate.clear()
    bench.take(work_item("fenced"))
    await bench.until(lambda: bench.engine.runs)
    bench.lose(bench.index)
    bench.clock.seconds += 6.0
    bench.backlog.changed()
    await bench.until(lambda: bench.runner._claims.renew_at() is None)
    bench.engine.gate.set()
    await bench.idle()


async def test_what_waited_before_its_cost_was_learned_is_claimed_by_what_is_known_now(tmp_path: Path) -> None:
    bench = Bench(tmp_path, claim_seconds=1.0)
    await bench.start()
    bench.engine.gpu_seconds = 0.0
    bench.take(*(work_item(f"job{n}") for n in range(200)))
    await bench.idle()
    claims = len({id(batch) for batch in bench.engine.batches})
    assert claims <= 12, "the price says 0.2 s: by that it would be nine at a time"
    await bench.end()


@pytest.mark.parametrize("endless", [1, 3, 8])
async def test_what_runs_whole_gets_its_turn_behind_a_stream_without_end(tmp_path: Path, endless: int) -> None:
    bench = Bench(tmp_path, affinity_wait_seconds=5)
    await bench.start()
    count = 0
    joined_at: list[float] = []

    def more() -> None:
        nonlocal count
        if any("a whole" in run for run in bench.engine.seen):
            joined_at.append(bench.clock.seconds)
        bench.clock.seconds += 1.0
        bench.take(*(work_item(f"job{count + n}", tenant="many") for n in range(endless)), offset=count)
        count += endless

    bench.engine.before = more
    more()
    await bench.until(lambda: sum(map(len, bench.engine.runs)) >= 20)
    began = bench.clock.seconds
    film = config(name="film", batching="whole", model={"name": "other", "digest": "sha256:" + "1" * 64})
    count += 1
    bench.take(work_item("whole", config=film, tenant="few"), offset=count - 1)
    await bench.until(lambda: joined_at)
    bench.engine.before = lambda: None
    await bench.idle()
    assert joined_at[0] - began <= 5 + 4, "after the wait, what was sent before drains"
    assert bench.results()["whole"].status == "succeeded"
    await bench.end()
