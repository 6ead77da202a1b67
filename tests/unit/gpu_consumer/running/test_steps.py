"""What is news of a job, over a runner without a broker."""

from schemas.progress import ProgressEvent
from tests.unit.gpu_consumer.bench import Bench
from tests.unit.gpu_consumer.work import EPOCH, config, work_item

FOUR = config(steps=4)


def news(bench: Bench) -> list[ProgressEvent]:
    return bench.runner.steps.news(EPOCH)


def said(bench: Bench) -> list[tuple[str, str, int]]:
    return [(event.request_id, event.state, event.step) for event in news(bench)]


async def makes(bench: Bench, **steps: int) -> None:
    """The engine says so, and the runner has heard it. By request id and picture, as a1."""
    jobs = {job.item.request_id: job.id for job in bench.backlog.jobs.values()}
    made = {f"{jobs[name[0]]}/{name[1]}": count for name, count in steps.items()}
    bench.engine.say_steps(made)
    await bench.until(lambda: bench.runner._inside.pulse.made == made)


async def joined(bench: Bench, count: int) -> None:
    await bench.until(lambda: sum(each.joined_at is not None for each in bench.runner._inside.flights()) == count)


async def test_a_job_is_queued_started_and_so_many_steps_far(bench: Bench) -> None:
    bench.engine.gate.clear()
    bench.take(work_item("a", images=2, config=FOUR))
    await joined(bench, 2)
    bench.take(work_item("b", config=config(name="other", width=128)), offset=1)  # of a kind that waits for the first
    await bench.until(lambda: len(bench.backlog.jobs) == bench.backlog.count("queued") == 2)
    assert said(bench) == [], "nothing of what may be over at once"
    assert said(bench) == [("a", "started", 0), ("b", "queued", 0)]
    assert said(bench) == [], "no news"
    await makes(bench, a0=1, a1=2)
    (event,) = news(bench)
    assert (event.state, event.step, event.steps, event.drawing) == ("step", 3, 8, (0, 1))
    assert (event.tenant, event.pool, event.config_hash, event.at) == ("blue", "a", FOUR.config_hash, EPOCH)
    assert "a a" not in event.model_dump_json(), "the prompt"
    await makes(bench, a0=1, a1=1)
    assert said(bench) == [], "it goes back, as where memory ran out"
    await makes(bench, a0=2, a1=1)
    assert said(bench) == [], "no further than it was before"
    await makes(bench, a0=9, a1=1)
    assert said(bench) == [("a", "step", 5)], "no picture has made more than it takes"
    bench.engine.gate.set()
    await bench.idle()
    assert said(bench) == [], "its result is news enough"


async def test_what_ends_between_two_looks_costs_no_event(bench: Bench) -> None:
    assert said(bench) == []
    bench.take(*(work_item(f"job{n}") for n in range(8)))
    await bench.idle()
    assert said(bench) == said(bench) == []


async def test_nothing_is_told_of_what_is_held_or_decided(bench: Bench) -> None:
    held, cancelled = work_item("a", config=FOUR), work_item("b", config=config(name="there"))
    bench.engine.missing.add(FOUR.kind)
    (job,) = bench.take(held)
    await bench.until(lambda: job.phase == "held")
    assert said(bench) == said(bench) == []
    bench.engine.missing.clear()
    bench.engine.gate.clear()
    bench.settler.available(FOUR.kind)
    (job,) = bench.take(cancelled, offset=1)
    await joined(bench, 1)
    assert said(bench) == []
    bench.settler.cancel(job)
    assert said(bench) == []


async def test_pictures_that_are_drawn_count_whole(bench: Bench) -> None:
    bench.engine.gate.clear()
    (job,) = bench.take(work_item("a", images=2, config=config(steps=4, bucket=1)))
    await joined(bench, 1)
    assert said(bench) == []
    bench.engine.before = bench.engine.gate.clear  # after the first it waits again
    bench.engine.gate.set()
    await bench.until(lambda: len(job.pictures) == 1)
    await joined(bench, 1)
    (event,) = news(bench)
    assert (event.state, event.step, event.steps, event.drawing) == ("step", 4, 8, (1,))


async def test_a_job_that_is_gone_leaves_nothing(bench: Bench) -> None:
    bench.engine.gate.clear()
    bench.take(work_item("a"))
    await joined(bench, 1)
    news(bench)
    assert len(bench.runner.steps._told) == 1
    bench.engine.gate.set()
    await bench.idle()
    news(bench)
    assert bench.runner.steps._told == {}
