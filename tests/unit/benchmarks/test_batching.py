"""The policies that bench-batching compares are what they are called, and nobody is lost in any of them."""

import pytest

from gpu_consumer.engine.virtual.device import VirtualDevice
from gpu_consumer.engine.virtual.loop import VirtualLoop
from gpu_consumer.memory import quantile_of
from tests.benchmarks.batching import ours
from tests.benchmarks.batching.baselines import (
    BASELINES,
    Baseline,
    EagerPadToMax,
    FillThenSplit,
    FillThenSplitShortest,
    Knobs,
    PadToMax,
    PerKey,
    finish_times,
    tuned,
)
from tests.benchmarks.batching.workload import MEAN_STEPS, Job, backlog, poisson

DEVICE = VirtualDevice(steps=((1, 1.0), (4, 2.0), (16, 14.0)), text=(0.0, 0.0), decode=(0.0, 0.0))
VARIANTS = [variant for variants in BASELINES.values() for variant in variants]


def _jobs(*steps: int, every: float = 0.0) -> list[Job]:
    return [Job(number, number * every, each) for number, each in enumerate(steps)]


def _finished(baseline: Baseline, *steps: int, every: float = 0.0) -> list[float]:
    finished = finish_times(baseline, _jobs(*steps, every=every), DEVICE)
    assert finished is not None
    return finished


def test_pad_to_max_runs_as_long_as_the_longest() -> None:
    assert _finished(PadToMax(Knobs(4, 0.0)), 20, 50, 20, 20) == pytest.approx([100.0] * 4)


def test_fill_then_split_runs_the_parts_one_after_another() -> None:
    two = DEVICE.step_seconds(2)
    assert _finished(FillThenSplit(Knobs(4, 0.0)), 50, 20, 50, 20) == pytest.approx([50 * two, 70 * two] * 2)
    assert _finished(FillThenSplitShortest(Knobs(4, 0.0)), 50, 20, 50, 20) == pytest.approx([70 * two, 20 * two] * 2)


def test_a_batch_that_was_formed_early_stays_as_it_is() -> None:
    one = DEVICE.step_seconds(1)
    # The second would have fitted into the third's batch, but its time was over while the first ran.
    jobs = [Job(0, 0.0, 20), Job(1, 5.0, 20), Job(2, 15.0, 20)]
    assert finish_times(EagerPadToMax(Knobs(4, 2.0)), jobs, DEVICE) == pytest.approx(
        [2 + 20 * one * n for n in (1, 2, 3)]
    )
    together = 2 + 20 * one + 20 * DEVICE.step_seconds(2)
    assert finish_times(PadToMax(Knobs(4, 2.0)), jobs, DEVICE) == pytest.approx([2 + 20 * one, together, together])


def test_per_key_batches_only_equals() -> None:
    two = DEVICE.step_seconds(2)
    finished = _finished(PerKey(Knobs(2, 10.0)), 50, 20, 50, 20, every=1.0)
    assert finished == pytest.approx([2 + 50 * two, 2 + 70 * two] * 2)


def test_a_batch_that_is_not_full_goes_when_its_first_has_waited() -> None:
    # The first waits 5 s, and who came by then goes with it.
    finished = _finished(PadToMax(Knobs(4, 5.0)), 20, 20, every=3.0)
    assert finished == pytest.approx([5.0 + 20 * DEVICE.step_seconds(2)] * 2)


@pytest.mark.parametrize("variant", VARIANTS)
def test_everybody_is_served_once_and_never_before_it_could_be(variant: type[Baseline]) -> None:
    jobs = poisson(0.3, 300, 5)
    finished = finish_times(variant(Knobs(8, 2.0)), jobs, DEVICE)
    assert finished is not None
    assert all(done >= job.arrival + job.steps for done, job in zip(finished, jobs, strict=True))


@pytest.mark.parametrize("variant", VARIANTS)
def test_giving_up_early_changes_no_verdict(variant: type[Baseline]) -> None:
    jobs = poisson(0.05, 200, 6)
    finished = finish_times(variant(Knobs(4, 2.0)), jobs, DEVICE)
    assert finished is not None
    p95 = quantile_of([done - job.arrival for done, job in zip(finished, jobs, strict=True)], 0.95)
    assert finish_times(variant(Knobs(4, 2.0)), jobs, DEVICE, p95_max=p95) is None
    assert finish_times(variant(Knobs(4, 2.0)), jobs, DEVICE, p95_max=p95 * 1.001) == finished


def test_tuning_finds_what_no_other_setting_beats() -> None:
    jobs = poisson(0.03, 200, 7)
    best = tuned("per-key", jobs, DEVICE)
    for size in (2, 8, 16):
        finished = finish_times(PerKey(Knobs(size, 5.0)), jobs, DEVICE)
        assert finished is not None
        latencies = [done - job.arrival for done, job in zip(finished, jobs, strict=True)]
        assert quantile_of(latencies, 0.95) >= best.p95


def test_ours_never_beats_the_full_batch_limit_and_a_lone_job_takes_what_it_must() -> None:
    device = VirtualDevice()
    run = ours.run(backlog(400, 1), 4, VirtualLoop(device))
    rate = run.full_steps / MEAN_STEPS / run.full_seconds
    assert 0.9 < rate * device.full_batch_seconds(4, MEAN_STEPS) <= 1.0
    alone = ours.run(_jobs(20), 4, VirtualLoop(device)).finished[0]
    load = device.model_bytes / device.load_bytes_per_second
    stages = device.text_seconds(4) + device.decode_seconds(4)
    assert alone == pytest.approx(load + 20 * device.step_seconds(4) + stages)
