"""The backlog: one job an id, counts by lane, repeats parked."""

from gpu_consumer.backlog import Backlog
from gpu_consumer.engine.protocol import Flaw, Picture
from gpu_consumer.scheduling.scheduler import Scheduler
from tests.unit.gpu_consumer.work import FakeIndex, config, job_of, work_item


def test_a_repeat_is_parked_until_the_job_leaves() -> None:
    backlog, index = Backlog(Scheduler(0.0)), FakeIndex()
    first, repeat = job_of(work_item("a"), index, 0), job_of(work_item("a"), index, 5)
    assert backlog.enter(first)
    assert not backlog.enter(repeat)
    assert backlog.pictures("standard") == 1, "a repeat makes no picture"
    assert backlog.leave(first) == [repeat]
    assert backlog.pictures("standard") == 0
    assert backlog.enter(repeat)


def test_what_is_parked_of_a_lost_index_is_forgotten() -> None:
    backlog, lost = Backlog(Scheduler(0.0)), FakeIndex()
    first, repeat = job_of(work_item("a"), FakeIndex(), 0), job_of(work_item("a"), lost, 5)
    backlog.enter(first)
    backlog.enter(repeat)
    lost.void = True
    assert backlog.leave(first) == []


def test_what_is_held_does_not_count_and_wakes_nobody_up() -> None:
    backlog = Backlog(Scheduler(0.0))
    job = job_of(work_item("a", images=3), FakeIndex())
    backlog.enter(job)
    assert backlog.pictures("standard") == 3
    backlog.hold(job, 2000.0, "no model")
    assert (backlog.pictures("standard"), backlog.problems(), backlog.count("held")) == (0, ["no model"], 1)
    assert backlog.scheduler.expired(2000.0) == [job.id]
    backlog.look_again(job)
    assert backlog.pictures("standard") == 3
    backlog.queue(job, 1000.0)
    assert len(backlog.scheduler) == 3
    backlog.leave(job)
    assert (len(backlog.scheduler), backlog.pictures("standard")) == (0, 0)
    backlog.scheduler.check_integrity()


def test_a_lost_index_takes_what_waits_and_leaves_what_runs() -> None:
    backlog, index, other = Backlog(Scheduler(0.0)), FakeIndex(), FakeIndex(1)
    jobs = [job_of(work_item(name, images=2), owner) for name, owner in (("a", index), ("b", index), ("c", other))]
    for job in jobs:
        backlog.enter(job)
        backlog.queue(job, 1000.0)
    jobs[1].running = 1
    assert backlog.drop(index) == [jobs[0]]  # type: ignore[arg-type]
    assert len(backlog.scheduler) == 2


def test_a_job_ends_when_nothing_of_it_runs_and_its_end_is_known() -> None:
    job = job_of(work_item("a", images=2), FakeIndex())
    assert not job.ended
    job.flaw = Flaw("k", "blank_output", "one colour")
    job.running = 1
    assert not job.ended
    job.running = 0
    assert job.ended


def test_changes_wake_every_listener() -> None:
    backlog = Backlog(Scheduler(0.0))
    first, second = backlog.listen(), backlog.listen()
    backlog.changed()
    assert first.is_set()
    assert second.is_set()


def test_repeats_of_what_is_held_do_not_keep_others_out() -> None:
    backlog, index = Backlog(Scheduler(0.0)), FakeIndex()
    job = job_of(work_item("a"), index)
    backlog.enter(job)
    backlog.hold(job, 2000.0, "no model")
    for n in range(1, 10):
        backlog.enter(job_of(work_item("a"), index, n))
    assert backlog.pictures("standard") == 0


def test_jobs_are_found_by_the_name_of_their_request() -> None:
    backlog, index = Backlog(Scheduler(0.0)), FakeIndex()
    job = job_of(work_item("a"), index)
    backlog.enter(job)
    assert backlog.named(b"blue/a") == [job]
    assert backlog.named(b"red/a") == []
    backlog.leave(job)
    assert backlog.named(b"blue/a") == []
    assert not backlog._named


def test_what_is_recalled_is_told_once() -> None:
    backlog = Backlog(Scheduler(0.0))
    job = job_of(work_item("a"), FakeIndex())
    changed = backlog.listen()
    backlog.recall(job)
    backlog.recall(job)
    assert changed.is_set()
    assert backlog.recalled() == [job]
    assert backlog.recalled() == []


def test_units_say_what_the_scheduler_needs() -> None:
    backlog = Backlog(Scheduler(0.0))
    made = config(batching="whole")
    job = job_of(work_item("a", images=2, config=made), FakeIndex())
    backlog.expected.learn(made.config_hash, 3.0)
    for _ in range(3):
        backlog.expected.ran(made.config_hash, 5.0)
    job.pictures[0] = Picture("k", b"", "image/png", "png", 8, 8, 4)
    (unit,) = job.units(backlog.expected)
    assert (unit.n, unit.tenant, unit.kind, unit.model) == (1, "blue", made.config_hash, made.model_key)
    assert (unit.joins, unit.alone, unit.seconds, unit.run_seconds) == (False, False, 3.0, 5.0)
