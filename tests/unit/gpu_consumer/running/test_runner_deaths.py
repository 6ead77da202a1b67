"""What becomes of a run whose engine dies, and of the engine."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from gpu_consumer.engine.protocol import EngineDied, Ready
from gpu_consumer.running.keeper import EngineUnusable
from tests.unit.gpu_consumer.bench import Bench
from tests.unit.gpu_consumer.work import EPOCH, work_item


# case KQ-04
async def test_what_had_a_slot_is_charged_with_a_death_and_nothing_else(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    (poison,) = bench.take(work_item("poison", prompt="poison", deadline=EPOCH + timedelta(minutes=1)))
    bench.take(*(work_item(f"job{n}") for n in range(7)), offset=1)
    await bench.idle()
    found = bench.results()
    assert (found["poison"].code, found["poison"].attempt) == ("engine_death", 4)
    assert bench.engine.starts == 4, "a job that kills engines does not do so a fourth time"
    deaths = [found[f"job{n}"].attempt for n in range(7)]
    beside = sum(len(run) for run in bench.engine.runs if any(item.prompt == "poison" for item in run)) - 3
    assert sorted(deaths) == [1] * (7 - beside) + [2] * beside
    assert beside <= 3, "what was sent ahead had no slot, and then it was alone"
    assert {result.status for name, result in found.items() if name != "poison"} == {"succeeded"}
    told = [vars(record) for record in caplog.records if vars(record).get("job_id") == poison.id]
    died = [each for each in told if each["message"].endswith("had a slot when the engine died")]
    assert [each["attempt"] for each in died] == [1, 2, 3]
    assert all(each["config_hash"] == poison.item.config_hash and "free" in each["memory"] for each in died)


# case KQ-04
async def test_from_its_second_run_on_it_is_alone(bench: Bench) -> None:
    bench.engine.gate.clear()
    bench.take(work_item("poison", prompt="poison"), *(work_item(f"job{n}") for n in range(3)))
    await bench.until(lambda: bench.engine.runs)
    bench.engine.gate.set()
    await bench.idle()
    with_it = [run for run in bench.engine.seen if "poison" in run]
    assert [len(run) for run in with_it] == [4, 1, 1]


async def test_a_death_while_a_claim_is_under_way_charges_nothing_of_it(bench: Bench) -> None:
    write, may_write, asked = bench.index.write, asyncio.Event(), asyncio.Event()

    async def slow(changes: object) -> None:
        asked.set()
        await may_write.wait()
        await write(changes)  # type: ignore[arg-type]

    bench.index.write = slow  # type: ignore[method-assign]
    bench.take(work_item("innocent"))
    await asyncio.wait_for(asked.wait(), 60)
    bench.engine.die()
    may_write.set()
    await bench.idle()
    assert bench.results()["innocent"].attempt == 1


async def test_a_death_that_is_heard_when_sending_is_one_death(bench: Bench) -> None:
    submit = bench.engine.submit

    async def dead(batch: object) -> None:
        bench.engine.submit = submit  # type: ignore[method-assign]
        bench.engine.die()
        raise EngineDied("gone")

    bench.engine.submit = dead  # type: ignore[method-assign]
    bench.take(work_item("innocent"))
    await bench.idle()
    assert (bench.results()["innocent"].attempt, bench.engine.starts) == (1, 2)


async def test_an_engine_that_ends_while_idle_is_started_again(bench: Bench) -> None:
    bench.engine.die()
    await bench.until(lambda: bench.engine.starts == 2)
    bench.take(work_item("next"))
    await bench.idle()
    assert bench.results()["next"].attempt == 1


async def test_a_restart_is_named_while_it_lasts(bench: Bench) -> None:
    start, may_start = bench.engine.start, asyncio.Event()

    async def slow() -> Ready:
        assert "killed by a picture" in (bench.runner.restarting or "")
        may_start.set()
        return await start()

    bench.engine.start = slow  # type: ignore[method-assign]
    bench.take(work_item("poison", prompt="poison"))
    await bench.idle()
    assert may_start.is_set()
    assert bench.runner.restarting is None
    assert bench.value("start_seconds", stage="warm") == 0.5


async def test_who_is_told_to_stop_does_not_wait_for_a_restart(bench: Bench) -> None:
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def never() -> Ready:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        raise AssertionError

    bench.engine.start = never  # type: ignore[method-assign]
    bench.engine.die()
    await asyncio.wait_for(started.wait(), 60)
    bench.runner.stop()
    await asyncio.wait_for(bench.running, 60)
    assert cancelled.is_set()


async def test_an_engine_that_dies_too_often_ends_the_runner(tmp_path: Path) -> None:
    bench = Bench(tmp_path, restarts_per_hour_max=2, engine_deaths_max=9)
    await bench.start()
    bench.take(work_item("poison", prompt="poison"))
    with pytest.raises(EngineUnusable, match="2 times within an hour"):
        await asyncio.wait_for(bench.running, 60)
    assert bench.index.ledger("standard").marks[0].engine_deaths == 3


async def test_a_death_after_the_marks_were_handed_back_counts_all_the_same(bench: Bench) -> None:
    bench.engine.gate.clear()
    (job,) = bench.take(work_item("poison", prompt="poison"))
    await bench.until(lambda: job.started)
    bench.index.ledger("standard").marks.clear()  # as a drain does whose grace is over
    bench.runner.stop()
    bench.engine.gate.set()
    await asyncio.wait_for(bench.running, 60)
    assert bench.index.ledger("standard").marks[0].engine_deaths == 1
    assert bench.engine.starts == 1, "nobody needs it any more"


async def test_slots_of_an_engine_that_died_are_not_counted_until_the_next_one_speaks(bench: Bench) -> None:
    bench.engine.gate.clear()
    (job,) = bench.take(work_item("job"))
    await bench.until(lambda: job.started)
    start = bench.engine.start

    async def slow() -> Ready:
        bench.clock.seconds += 600
        return await start()

    bench.engine.start = slow  # type: ignore[method-assign]
    bench.clock.seconds += 1
    bench.engine.die()
    await bench.until(lambda: len(bench.engine.runs) == 2)
    assert bench.value("slot_seconds_total", state="filled") == pytest.approx(1.0)
    bench.engine.gate.set()
    await bench.idle()
