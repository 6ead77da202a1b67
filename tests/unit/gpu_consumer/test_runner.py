"""Claiming, running and settling, without a broker: indexes that commit at once, a store in a folder."""

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from gpu_consumer import results
from gpu_consumer.backlog import Backlog, Job
from gpu_consumer.engine.instant import InstantEngine
from gpu_consumer.engine.protocol import Batch, EngineDied, Finished, Flaw, Ready
from gpu_consumer.keeper import EngineUnusable
from gpu_consumer.ledger import Mark
from gpu_consumer.metrics import GpuMetrics
from gpu_consumer.outcomes import Outcomes
from gpu_consumer.runner import Runner
from gpu_consumer.scheduler import Scheduler
from gpu_consumer.settings import GpuConsumerSettings
from gpu_consumer.settle import Settler
from gpu_consumer.store.base import StoreSettings
from gpu_consumer.store.choice import open_store
from gpu_consumer.store.outcomes import OutcomeStore
from schemas.outcome import Outcome
from schemas.result import parse_result
from schemas.work import WorkItem
from tests.kafka import small_catalogue
from tests.unit.gpu_consumer.work import EPOCH, FakeIndex, FixedClock, config, job_of, work_item

ME = "me"


class Engine(InstantEngine):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[list[str]] = []
        self.before: Any = None

    async def run(self, batch: Batch) -> Finished:
        self.seen.append([item.prompt for item in batch.items])
        if self.before is not None:
            self.before()
        if any(item.prompt == "poison" for item in batch.items):
            self.die()
            raise EngineDied("killed by a picture", running=True)
        finished = await super().run(batch)
        flawed = [item.key for item in batch.items if item.prompt == "blank"]
        return Finished(
            finished.number,
            tuple(picture for picture in finished.pictures if picture.key not in flawed),
            tuple(Flaw(key, "blank_output", "one colour") for key in flawed),
            finished.timings, 1.0, 5, finished.bucket,
        )  # fmt: skip


class Bench:
    """A runner and a settler over fakes."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.clock = FixedClock()
        self.engine = Engine()
        self.index = FakeIndex()
        self.metrics = GpuMetrics()
        self.lost: list[Any] = []
        values: dict[str, Any] = {"pool": "a", "batch_wait_seconds": 0, "claim_seconds": 60}
        self.settings = GpuConsumerSettings(**(values | settings))
        self.store = OutcomeStore(open_store(f"file://{folder}", StoreSettings()))
        self.backlog = Backlog(Scheduler(self.settings.batch_wait_seconds))
        self._tasks: set[asyncio.Task[None]] = set()
        outcomes = Outcomes(self.store, self.settings, self.metrics)
        self.settler = Settler(
            self.settings, small_catalogue("t"), self.backlog, outcomes, self.metrics, self.clock,
            incarnation=ME, spawn=self._spawn, on_void=lambda index, _: self.lost.append(index),
        )  # fmt: skip
        self.runner = Runner(
            self.settings, self.engine, self.backlog, self.settler, outcomes, self.metrics, self.clock, incarnation=ME
        )

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def idle(self) -> None:
        """Until nothing of ours is under way and nothing can run."""
        async with asyncio.timeout(20):
            while self._tasks or len(self.backlog.scheduler) or any(job.running for job in self.backlog.jobs.values()):
                assert not self.running.done() or self._tasks, self.running
                await asyncio.sleep(0.001)
                if self.running.done():
                    return

    def take(self, *items: WorkItem, offset: int = 0) -> list[Job]:
        jobs = [job_of(item, self.index, offset + n) for n, item in enumerate(items)]
        self.settler.admit(jobs)
        return jobs

    async def start(self) -> None:
        self.settler.environment = results.environment(await self.engine.start())
        self.running = asyncio.create_task(self.runner.run())

    async def end(self) -> None:
        self.runner.stop()
        await self.running

    def results(self) -> dict[str, Any]:
        parsed = [parse_result(output.value) for output in self.index.outputs]
        assert len({result.request_id for result in parsed}) == len(parsed), "one result a job"
        return {result.request_id: result for result in parsed}


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    made = Bench(tmp_path)
    await made.start()
    yield made
    await made.end()


async def test_what_is_marked_is_finished_and_no_mark_stays(bench: Bench) -> None:
    marked: list[dict[int, Mark]] = []
    bench.engine.before = lambda: marked.append(dict(bench.index.ledger("standard").marks))
    bench.take(*(work_item(f"job{n}") for n in range(6)))
    await bench.idle()
    assert marked[0].keys() == set(range(6)), "short batches are marked together"
    assert {mark.incarnation for mark in marked[0].values()} == {ME}
    ledger = bench.index.ledger("standard")
    assert (ledger.watermark, ledger.marks) == (6, {})
    assert len(bench.results()) == 6


# case KQ-04
async def test_only_the_batch_that_ran_is_charged_with_a_death(bench: Bench) -> None:
    odd = config(name="odd", steps=9)
    bench.take(work_item("poison", prompt="poison"), *(work_item(f"job{n}", config=odd) for n in range(3)))
    await bench.idle()
    found = bench.results()
    assert (found["poison"].code, found["poison"].attempt) == ("engine_death", 4)
    assert [found[f"job{n}"].attempt for n in range(3)] == [1, 1, 1]
    assert bench.engine.starts == 4


async def test_a_job_fails_as_a_whole_and_costs_no_more(bench: Bench) -> None:
    jobs = bench.take(work_item("blank", prompt="blank", images=9), work_item("fine"))
    await bench.idle()
    found = bench.results()
    assert (found["blank"].status, found["blank"].code, found["fine"].status) == ("failed", "blank_output", "succeeded")
    assert sum(prompt == "blank" for batch in bench.engine.seen for prompt in batch) == 4, "one batch of three"
    assert not jobs[0].running


async def test_pictures_of_one_job_over_many_batches_are_one_result(bench: Bench) -> None:
    bench.take(work_item("many", images=10))
    await bench.idle()
    (result,) = bench.results().values()
    assert [artifact.seed for artifact in result.artifacts] == list(range(7, 17))
    assert result.gpu_seconds == pytest.approx(3.0)
    assert len(bench.engine.seen) == 3


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


async def test_an_engine_that_ends_while_idle_is_started_again(bench: Bench) -> None:
    bench.engine.die()
    async with asyncio.timeout(20):
        while bench.engine.starts < 2:  # noqa: ASYNC110 - the thing itself is that nobody tells
            await asyncio.sleep(0.01)
    bench.take(work_item("next"))
    await bench.idle()
    assert bench.results()["next"].attempt == 1


async def test_an_expired_job_is_settled_as_such(bench: Bench) -> None:
    bench.take(work_item("late", deadline=EPOCH - timedelta(seconds=1)))
    await bench.idle()
    assert bench.results()["late"].status == "expired"


async def test_what_expires_after_it_was_marked_does_not_run(bench: Bench) -> None:
    bench.engine.before = lambda: setattr(bench.clock, "seconds", bench.clock.seconds + 10)
    soon = work_item("soon", config=config(steps=9), deadline=EPOCH + timedelta(seconds=5))
    bench.take(work_item("long"), soon)
    await bench.idle()
    assert bench.engine.seen == [["a long"]]
    assert {name: result.status for name, result in bench.results().items()} == {"long": "succeeded", "soon": "expired"}
    assert bench.index.ledger("standard").watermark == 2


async def test_an_outcome_that_appeared_since_the_job_was_taken_costs_no_run(tmp_path: Path) -> None:
    bench = Bench(tmp_path, batch_wait_seconds=5)
    await bench.start()
    (job,) = bench.take(work_item("contested"))
    async with asyncio.timeout(20):
        while not bench.backlog.count("queued"):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.001)
    assert bench.settler.environment is not None
    assert job.work.item is not None
    ended = results.failed(job.work.item, "blank_output", "elsewhere", results.Run(), bench.settler.environment, EPOCH)
    bench.store.settle(Outcome(job_id=job.id, record=job.record, results_partition=1, result=ended))
    bench.clock.seconds = 6
    bench.backlog.changed()
    await bench.idle()
    assert bench.engine.seen == []
    assert bench.results() == {"contested": ended}
    await bench.end()


async def test_no_batch_starts_while_too_much_is_unsettled(tmp_path: Path) -> None:
    """A store that is slow must not let finished pictures pile up."""
    bench = Bench(tmp_path, settling_max=4, claim_seconds=0)
    await bench.start()
    settle, may_settle, asked = bench.store.settle, threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def slow(outcome: Outcome) -> Outcome:
        loop.call_soon_threadsafe(asked.set)
        may_settle.wait(20)
        return settle(outcome)

    bench.store.settle = slow  # type: ignore[method-assign]
    bench.take(*(work_item(f"job{n}") for n in range(12)))
    await asyncio.wait_for(asked.wait(), 20)
    for _ in range(100):
        await asyncio.sleep(0)
    assert len(bench.engine.seen) == 1
    may_settle.set()
    await bench.idle()
    assert len(bench.engine.seen) == 3
    assert len(bench.results()) == 12
    await bench.end()


async def test_long_batches_are_marked_one_by_one_for_as_long_as_they_may_run(tmp_path: Path) -> None:
    bench = Bench(tmp_path, claim_seconds=0.1, mark_seconds_min=0.001, mark_factor=5)
    await bench.start()
    marks: list[dict[int, Mark]] = []
    bench.engine.before = lambda: marks.append(dict(bench.index.ledger("standard").marks))
    bench.take(*(work_item(f"job{n}") for n in range(6)))
    await bench.idle()
    assert marks[0].keys() == set(range(4))
    assert {mark.until_ms - mark.since_ms for mark in marks[0].values()} == {4000}, "4 pictures of 0.2 s, times 5"
    await bench.end()


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


async def test_an_engine_that_dies_too_often_ends_the_runner(tmp_path: Path) -> None:
    bench = Bench(tmp_path, restarts_per_hour_max=2, engine_deaths_max=9)
    await bench.start()
    bench.take(work_item("poison", prompt="poison"))
    await bench.idle()
    with pytest.raises(EngineUnusable, match="2 times within an hour"):
        await bench.running
    assert bench.index.ledger("standard").marks[0].engine_deaths == 3
