"""What a pool's work asks for: its share, its deadlines, and the higher of both."""

import math
from collections.abc import Sequence

import pytest

from infra.scaler.signal import EXPIRED_SECONDS, Fleet, Job, Signal, replicas_in_time
from schemas.pools import Pool

NOW = 1000.0
ASLEEP = Fleet(ready=0, load_seconds=45.0, replicas_max=8)
AWAKE = Fleet(ready=2, load_seconds=45.0, replicas_max=8)


def signal(*pieces: float, replicas: int = 0) -> Signal:
    return Signal({"bulk": sum(pieces)}, 0.0, pieces, replicas=replicas)


def test_nothing_to_do_is_zero_and_nothing_else_is() -> None:
    assert (Signal().value(60), Signal().active(0)) == (0.0, False)
    assert signal(EXPIRED_SECONDS).value(60) > 0
    assert signal(EXPIRED_SECONDS).active(0)


def test_active_is_above_the_activation_not_at_it() -> None:
    assert signal(10.0, 20.0).active(29.9)
    assert not signal(10.0, 20.0).active(30.0)
    assert Signal(running=1.0, pieces=(1.0,)).active(0.5)


def test_the_share_is_the_work() -> None:
    assert signal(10.0, 20.0, 40.0).value(60) == 70.0


def test_a_job_longer_than_the_target_asks_for_one_replica() -> None:
    """400 GPU-seconds of one job keep one replica busy; six more would have nothing to do."""
    assert math.ceil(signal(400.0).value(60) / 60) == 1
    assert math.ceil(signal(400.0, 400.0, 400.0).value(60) / 60) == 3


def test_jobs_that_are_not_known_one_by_one_are_as_the_usual_one() -> None:
    assert Signal({"bulk": 300.0}, 0.0, (10.0,), alike=29, alike_seconds=10.0).value(60) == 300.0
    assert Signal({"bulk": 800.0}, 0.0, (), alike=2, alike_seconds=400.0).value(60) == 120.0


@pytest.mark.parametrize("target", [60.0, 0.7, 1.234, 333.333])
def test_deadlines_that_need_more_than_the_share_count(target: float) -> None:
    for replicas in range(1, 40):
        value = signal(target, target, replicas=replicas).value(target)
        thousandths = math.floor(value * 1000 + 1e-6) / math.floor(target * 1000 + 1e-6)  # as KEDA hands both on
        assert math.ceil(thousandths) == max(2, replicas)


def in_time(fleet: Fleet, *jobs: tuple[float, float], running: Sequence[float] = ()) -> int:
    return replicas_in_time([Job(seconds, NOW + due) for seconds, due in jobs], running, fleet, NOW)


def test_without_deadlines_none_are_needed() -> None:
    assert in_time(ASLEEP) == 0
    assert replicas_in_time([Job(10.0)], (), ASLEEP, NOW) == 0


def test_a_replica_takes_its_time_to_start() -> None:
    # 30 GPU-seconds before the last, which takes 10: one replica begins it after 45 + 30 s.
    jobs = [(10.0, 3600.0)] * 3 + [(10.0, 3601.0)]
    assert in_time(ASLEEP, *jobs) == 1
    assert in_time(ASLEEP, *[(10.0, 85.0)] * 4) == 1
    assert in_time(ASLEEP, *[(10.0, 84.0)] * 4) == 2
    assert in_time(ASLEEP, *[(10.0, 56.0)] * 4) == 4  # one for each: all begin when they are there
    assert in_time(ASLEEP, *[(10.0, 56.0)] * 12) == 8  # four are late whatever is done
    assert in_time(ASLEEP, (10.0, 54.0)) == 0


def test_those_that_are_there_work_meanwhile() -> None:
    assert in_time(AWAKE, *[(10.0, 25.0)] * 4) == 2
    # The fifth begins when 40 are done: 2 x 20. One more replica comes too late to help it.
    assert in_time(AWAKE, *[(10.0, 30.0)] * 5) == 2
    assert in_time(AWAKE, *[(50.0, 60.0)] * 4) == 2  # only two of them can be had at all
    assert in_time(AWAKE, *[(50.0, 150.0)] * 6) == 3  # 250 before the last, within 100: 2 x 100 + 1 x 55


def test_fewer_than_there_are_may_do() -> None:
    assert in_time(AWAKE, (10.0, 100.0), (10.0, 100.0)) == 1


def test_what_runs_goes_first() -> None:
    assert in_time(AWAKE, (10.0, 100.0), running=[80.0]) == 1
    assert in_time(AWAKE, (10.0, 100.0), running=[100.0]) == 2


def test_what_cannot_be_met_asks_for_none_and_stands_before_nothing() -> None:
    hopeless = [(1000.0, 30.0)] * 5
    assert in_time(AWAKE, *hopeless, (10.0, 60.0)) == in_time(AWAKE, (10.0, 60.0)) == 1
    assert in_time(Fleet(0, 45.0, 2), *[(10.0, 60.0)] * 100) == 2


def test_headroom_asks_for_more_where_there_is_more_and_for_no_less_where_there_is_not() -> None:
    jobs = [(10.0, 130.0)] * 12
    plain, roomy, full = Fleet(2, 45.0, 8), Fleet(2, 45.0, 8, headroom=2.0), Fleet(2, 45.0, 2, headroom=2.0)
    assert in_time(plain, *jobs) < in_time(roomy, *jobs)
    assert in_time(full, *jobs) == 2, "without headroom they can all be met"


def test_a_declared_pool_is_counted_on_with_headroom_and_the_time_of_asking() -> None:
    fleet = Fleet.of(Pool(gpu_product="H200", vram_bytes=1, price_usd_per_hour=4, load_seconds=45), ready=3)
    assert (fleet.ready, fleet.replicas_max) == (3, 4)
    assert fleet.load_seconds > 45
    assert fleet.headroom > 1
