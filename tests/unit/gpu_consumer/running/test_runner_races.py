"""What happens to a job while the runner waits for a transaction or the engine: each job still ends once."""

import asyncio
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from gpu_consumer.engine.protocol import Ended
from gpu_consumer.ledger import Mark
from streams.kafka.errors import LeaseVoid
from tests.unit.gpu_consumer.bench import Bench
from tests.unit.gpu_consumer.work import EPOCH, FakeIndex, RunningClock, config, work_item


def at_the_next_write(bench: Bench, act: Callable[[], object]) -> None:
    """Once, while that transaction is under way."""
    write = bench.index.write

    async def during(changes: Any) -> None:
        bench.index.write = write  # type: ignore[method-assign]
        act()
        await write(changes)

    bench.index.write = during  # type: ignore[method-assign]


def void() -> None:
    raise LeaseVoid("fenced")


# A refusal.


async def test_a_job_that_was_cancelled_before_its_model_was_refused_ends_once(bench: Bench) -> None:
    bench.engine.missing = {"tiny"}
    submit = bench.engine.submit

    async def cancelled(batch: Any) -> None:
        await submit(batch)
        bench.settler.cancel(job)

    bench.engine.submit = cancelled  # type: ignore[method-assign]
    (job,) = bench.take(work_item("both"))
    await bench.until(bench.results)
    await bench.idle()
    assert bench.results()["both"].status == "cancelled"


@pytest.mark.parametrize("how", ["cancelled", "expired"])
async def test_a_job_that_ends_while_its_refused_pictures_are_handed_back_ends_once(bench: Bench, how: str) -> None:
    bench.engine.missing = {"tiny"}
    submit = bench.engine.submit

    async def refused(batch: Any) -> None:
        at_the_next_write(bench, end)
        await submit(batch)

    def end() -> None:
        if how == "cancelled":
            bench.settler.cancel(job)
        else:
            bench.clock.seconds = 10.0
            bench.expire()

    bench.engine.submit = refused  # type: ignore[method-assign]
    (job,) = bench.take(work_item("many", images=9, deadline=EPOCH + timedelta(seconds=5)))
    await bench.until(bench.results)
    await bench.idle()
    assert bench.results()["many"].status == how
    assert not bench.backlog.jobs


async def test_an_index_that_is_lost_while_a_refused_picture_is_handed_back_loses_nothing_else(bench: Bench) -> None:
    bench.engine.missing = {"tiny"}
    submit = bench.engine.submit

    async def refused(batch: Any) -> None:
        at_the_next_write(bench, void)
        await submit(batch)

    bench.engine.submit = refused  # type: ignore[method-assign]
    bench.take(work_item("lost"))
    await bench.until(lambda: not bench.backlog.jobs)
    assert bench.lost == [bench.index]
    assert bench.results() == {}


# A death.


@pytest.mark.parametrize("images", [1, 9])
async def test_a_job_that_is_cancelled_while_a_death_is_charged_ends_once(bench: Bench, images: int) -> None:
    bench.engine.gate.clear()
    (job,) = bench.take(work_item("poison", prompt="poison", images=images))
    await bench.until(lambda: bench.engine.runs)
    at_the_next_write(bench, lambda: bench.settler.cancel(job))
    bench.engine.gate.set()
    await bench.until(bench.results)
    await bench.idle()
    assert bench.results()["poison"].status == "cancelled"
    assert bench.index.ledger("standard").marks == {}


async def test_cancel_deadline_and_death_at_once_are_one_end(bench: Bench) -> None:
    bench.engine.gate.clear()
    (job,) = bench.take(work_item("poison", prompt="poison", images=9, deadline=EPOCH + timedelta(seconds=5)))
    await bench.until(lambda: bench.engine.runs)

    def both() -> None:
        bench.clock.seconds = 10.0
        bench.expire()
        bench.settler.cancel(job)

    at_the_next_write(bench, both)
    bench.settler.cancel(job)
    bench.engine.gate.set()
    bench.engine.die()
    await bench.until(bench.results)
    await bench.idle()
    assert bench.results()["poison"].status == "cancelled"


async def test_an_index_that_is_lost_while_a_death_is_charged_is_no_second_accident(bench: Bench) -> None:
    bench.engine.gate.clear()
    bench.take(work_item("poison", prompt="poison"), work_item("other"))
    await bench.until(lambda: bench.engine.runs)
    at_the_next_write(bench, void)
    bench.engine.gate.set()
    await bench.until(lambda: not bench.backlog.jobs)
    await bench.until(lambda: bench.engine.starts == 2)
    assert bench.results() == {}


async def test_pictures_that_killed_an_engine_run_one_by_one_until_all_are_made(bench: Bench) -> None:
    bench.index.ledger("standard").marks[0] = Mark("", 0, 0, engine_deaths=1)
    bench.take(work_item("suspect", images=5), *(work_item(f"job{n}") for n in range(6)))
    await bench.idle()
    found = bench.results()
    assert {result.status for result in found.values()} == {"succeeded"}
    assert len(found["suspect"].artifacts) == 5
    assert found["suspect"].attempt == 2
    suspects = [run for run in bench.engine.seen if "a suspect" in run]
    assert [len(run) for run in suspects] == [1] * 5


async def test_what_an_engine_said_before_it_died_is_heard_even_if_that_is_late(bench: Bench) -> None:
    bench.engine.gate.clear()
    (made,) = bench.take(work_item("made"))
    await bench.until(lambda: bench.engine.runs)
    write = bench.index.write

    async def during(changes: Any) -> None:
        bench.index.write = write  # type: ignore[method-assign]
        bench.engine.gate.set()
        for _ in range(20):
            await asyncio.sleep(0)
        bench.engine.die()
        for _ in range(20):
            await asyncio.sleep(0)
        await write(changes)

    submit = bench.engine.submit

    async def refused(batch: Any) -> None:
        bench.index.write = during  # type: ignore[method-assign]
        await submit(batch)

    bench.engine.missing = {"gone"}
    bench.engine.submit = refused  # type: ignore[method-assign]
    bench.take(work_item("refused", config=config(model={"name": "gone", "digest": "sha256:" + "1" * 64})), offset=1)
    await bench.until(bench.results)
    assert bench.engine.runs_of(made.id) == 1
    assert bench.results()["made"].attempt == 1


# An index that is lost, and opened again by this very process.


async def test_a_job_that_is_taken_anew_while_it_runs_knows_what_it_cost(bench: Bench) -> None:
    bench.engine.gate.clear()
    item = work_item("running", images=2)
    (job,) = bench.take(item)
    await bench.until(lambda: sum(map(len, bench.engine.runs)) == 2 and job.started)
    bench.lose(bench.index)
    bench.index = FakeIndex()
    bench.take(item)
    (named,) = bench.backlog.named(b"blue/running")
    bench.cancelled.add(named.name)
    bench.settler.cancel(named)
    await bench.until(bench.results)
    result = bench.results()["running"]
    assert (result.status, result.message) == ("cancelled", "cancelled while it ran")
    assert result.gpu_seconds == pytest.approx(0.25)


async def test_a_job_that_is_taken_anew_while_it_runs_keeps_the_pictures_it_has(bench: Bench) -> None:
    bench.engine.gate.clear()
    item = work_item("many", images=9)
    bench.take(item)
    await bench.until(lambda: sum(map(len, bench.engine.runs)) == 4)
    bench.lose(bench.index)
    bench.index = FakeIndex()
    (anew,) = bench.take(item)
    bench.engine.gate.set()
    await bench.until(bench.results)
    await bench.idle()
    assert len(bench.results()["many"].artifacts) == 9
    assert bench.engine.runs_of(anew.id) == 9, "none was made twice"


# An index that moves away between the mark and the engine.


def moves_once_marked(bench: Bench) -> None:
    """As where a partition goes to another consumer right after the marks are committed, and nothing is sent yet."""
    write = bench.index.write

    async def marked(changes: Any) -> None:
        bench.index.write = write  # type: ignore[method-assign]
        await write(changes)
        bench.lose(bench.index)

    bench.index.write = marked  # type: ignore[method-assign]


async def test_what_is_marked_runs_although_its_index_moves_away_before_it_is_sent(bench: Bench) -> None:
    """The next owner waits for it, until the mark's expected end."""
    moves_once_marked(bench)
    jobs = bench.take(work_item("first", images=2), work_item("second"))
    await bench.until(lambda: not bench.backlog.jobs)
    assert bench.index.ledger("standard").marks.keys() == {0, 1}
    stored = [bench.store.lookup(job.id) for job in jobs]
    assert [None if outcome is None else outcome.result.status for outcome in stored] == ["succeeded"] * 2
    assert [bench.engine.runs_of(job.id) for job in jobs] == [2, 1]
    assert bench.results() == {}, "the next owner publishes"


async def test_pictures_of_which_the_rest_was_not_chosen_yet_do_not_run_for_an_index_that_moved(bench: Bench) -> None:
    moves_once_marked(bench)
    (many,) = bench.take(work_item("many", images=9))
    await bench.until(lambda: not bench.backlog.jobs)
    assert bench.engine.batches == [], "nothing of it could be stored"
    assert bench.store.lookup(many.id) is None


async def test_what_has_no_slot_when_its_index_moves_leaves_and_its_mark_too(bench: Bench) -> None:
    bench.engine.gate.clear()
    runs, *ahead = bench.take(*(work_item(f"job{n}", config=config(bucket=1)) for n in range(3)))
    await bench.until(lambda: runs.started and len(bench.engine.batches) == 2)
    assert bench.index.ledger("standard").marks.keys() == {0, 1}
    await bench.move()
    assert bench.index.ledger("standard").marks.keys() == {0}, "the next owner waits for what has a slot alone"
    await bench.until(lambda: bench.engine.left)
    bench.engine.gate.set()
    await bench.until(lambda: not bench.backlog.jobs)
    assert bench.engine.left == [f"{ahead[0].id}/0"]
    assert [bench.store.lookup(job.id) is not None for job in (runs, *ahead)] == [True, False, False]


@pytest.mark.parametrize("inside", [4, 5])
async def test_a_job_that_lacks_a_picture_when_its_index_moves_leaves_as_a_whole(tmp_path: Path, inside: int) -> None:
    """Nobody would store it: the fifth picture has no slot, or is not even chosen."""
    bench = Bench(tmp_path, settling_max=inside)
    await bench.start()
    bench.engine.gate.clear()
    (many,) = bench.take(work_item("many", images=5))
    await bench.until(lambda: many.started and sum(len(batch.items) for batch in bench.engine.batches) == inside)
    await bench.move()
    assert bench.index.ledger("standard").marks == {}
    await bench.until(lambda: not bench.backlog.jobs)
    assert len(bench.engine.left) == inside
    assert bench.store.lookup(many.id) is None
    await bench.end()


async def test_a_job_that_is_made_and_not_stored_yet_when_its_index_moves_keeps_its_mark(bench: Bench) -> None:
    """Its outcome will be there in a moment."""
    put, may_put = bench.store.put_artifact, threading.Event()

    def slow(*args: Any) -> Any:
        may_put.wait(60)
        return put(*args)

    bench.store.put_artifact = slow  # type: ignore[method-assign, assignment]
    (job,) = bench.take(work_item("made"))
    await bench.until(lambda: job.phase == "settling")
    await bench.move()
    may_put.set()
    assert bench.index.ledger("standard").marks.keys() == {0}
    await bench.until(lambda: not bench.backlog.jobs)
    assert bench.store.lookup(job.id) is not None


async def test_a_job_that_rests_between_two_pictures_when_its_index_moves_leaves_no_mark(bench: Bench) -> None:
    many, other = bench.take(work_item("many", images=9), work_item("other", tenant="red"))
    bench.engine.before = lambda: setattr(bench, "paused_until", lambda: float("inf"))
    await bench.until(lambda: many.pictures and not many.running and other.id not in bench.backlog.jobs)
    assert bench.index.ledger("standard").marks.keys() == {0}
    await bench.move()
    assert bench.index.ledger("standard").marks == {}
    assert not bench.backlog.jobs


async def test_what_ends_otherwise_than_well_when_its_index_moves_leaves_no_mark(bench: Bench) -> None:
    """Its end is not stored here; the next owner cannot wait for it."""
    bench.engine.gate.clear()
    (job,) = bench.take(work_item("late", deadline=EPOCH + timedelta(seconds=5)))
    await bench.until(lambda: job.started)
    job.verdict = ("cancelled", None, "cancelled while it ran")
    await bench.move()
    assert bench.index.ledger("standard").marks == {}
    await bench.until(lambda: not bench.backlog.jobs)


async def test_what_is_marked_and_not_sent_when_its_index_moves_is_not_sent(bench: Bench) -> None:
    """Also if the claim comes back after that."""
    write, moved = bench.index.write, asyncio.Event()

    async def marked(changes: Any) -> None:
        await write(changes)
        await bench.move()
        moved.set()

    bench.index.write = marked  # type: ignore[method-assign]
    jobs = bench.take(work_item("first", images=2), work_item("second"))
    await asyncio.wait_for(moved.wait(), 60)
    await bench.until(lambda: not bench.backlog.jobs)
    assert bench.index.ledger("standard").marks == {}
    assert bench.engine.batches == []
    assert [bench.store.lookup(job.id) for job in jobs] == [None, None]


async def test_where_the_next_owner_was_quicker_all_goes_on_that_it_waits_for(bench: Bench) -> None:
    bench.engine.gate.clear()
    runs, ahead, rest = bench.take(*(work_item(f"job{n}", config=config(bucket=1)) for n in range(3)))
    await bench.until(lambda: runs.started and len(bench.engine.batches) == 2)
    await bench.move(fenced=True)
    bench.runner.stop()  # and a drain lets them end too: nobody else makes them sooner
    bench.engine.gate.set()
    await asyncio.wait_for(bench.running, 60)
    await bench.until(lambda: not bench.backlog.jobs)
    assert bench.engine.left == []
    assert [bench.store.lookup(job.id) is not None for job in (runs, ahead, rest)] == [True, True, False]


async def test_what_is_claimed_when_a_drain_begins_is_sent_only_if_another_owner_waits_for_it(bench: Bench) -> None:
    write = bench.index.write

    async def marked(changes: Any) -> None:
        await write(changes)
        await bench.move(fenced=True)
        bench.runner.stop()

    bench.index.write = marked  # type: ignore[method-assign]
    (job,) = bench.take(work_item("job"))
    await asyncio.wait_for(bench.running, 60)
    await bench.until(lambda: not bench.backlog.jobs)
    assert bench.store.lookup(job.id) is not None


async def test_nothing_is_marked_after_the_marks_are_handed_back(tmp_path: Path) -> None:
    """By a renewal, say, of what still runs when the grace of a drain is over."""
    bench = Bench(tmp_path, clock=RunningClock(), mark_seconds_min=0.01, mark_factor=1)
    await bench.start()
    bench.engine.gate.clear()
    (job,) = bench.take(work_item("long"))
    await bench.until(lambda: job.started)
    bench.runner.stop()
    bench.runner.give_up()
    writes: list[Any] = []
    write = bench.index.write

    async def seen(changes: Any) -> None:
        writes.append(changes)
        await write(changes)

    bench.index.write = seen  # type: ignore[method-assign]
    marked_until = bench.index.ledger("standard").marks[0].until_ms
    await bench.until(lambda: bench.clock.wall_ms() > marked_until + 100)
    steps = 0
    step = bench.runner._step

    async def counted() -> None:
        nonlocal steps
        steps += 1
        await step()

    bench.runner._step = counted  # type: ignore[method-assign]
    bench.backlog.changed()
    await bench.until(lambda: steps)
    for _ in range(100):
        await asyncio.sleep(0)
    assert writes == []
    assert steps < 5, "a mark that is over wakes nobody"
    bench.index.write = write  # type: ignore[method-assign]
    await bench.end()


# What all of it costs.


@pytest.mark.parametrize("accident", ["none", "refused", "died", "cancelled"])
async def test_a_tenant_is_booked_with_what_it_was_given_and_nothing_else(bench: Bench, accident: str) -> None:
    bench.engine.gate.clear()
    if accident == "refused":
        bench.engine.missing = {"tiny"}
    jobs = bench.take(work_item("first"), work_item("second"))
    if accident == "refused":
        await bench.until(lambda: bench.backlog.count("held") == 2)
        bench.engine.missing = set()
        bench.clock.seconds = 61.0
        bench.expire()
    await bench.until(lambda: sum(map(len, bench.engine.runs)) == 2)
    if accident == "died":
        bench.engine.die()
    if accident == "cancelled":
        bench.settler.cancel(jobs[0])
        await bench.until(bench.results)
    bench.engine.gate.set()
    await bench.idle()
    account = bench.backlog.scheduler._shares._tenants["standard"]["blue"]
    spent = 0.25 + (0.125 if accident == "cancelled" else 0.25)
    assert account.served - account.credit == pytest.approx(spent)


async def test_a_suspect_waits_until_others_are_encoded_too(bench: Bench) -> None:
    bench.index.ledger("standard").marks[1] = Mark("", 0, 0, engine_deaths=1)
    say, ended = bench.engine._say, list[Any]()

    def slow(*events: Any) -> None:
        ended.extend(each for each in events if isinstance(each, Ended) and "suspect" not in each.key)
        say(*(each for each in events if each not in ended))

    bench.engine._say = slow  # type: ignore[method-assign]
    (first,) = bench.take(work_item("first"))
    await bench.until(lambda: ended)
    bench.engine._say = say  # type: ignore[method-assign]
    (suspect,) = bench.take(work_item("suspect"), offset=1)
    await bench.until(lambda: len(bench.backlog.scheduler) == 1)
    for _ in range(100):
        await asyncio.sleep(0)
    early = bench.engine.runs_of(suspect.id)
    say(*ended)
    await bench.idle()
    assert (early, bench.engine.runs_of(suspect.id)) == (0, 1)
    assert first.complete
