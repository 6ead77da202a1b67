"""The replicas that deadlines need: enough in a simulated pool, none too many by the bounds, never above the most."""

import heapq

from hypothesis import given
from hypothesis import strategies as st

from infra.scaler.signal import Fleet, Job, replicas_in_time

LOAD = 45
NOW = 1_000.0
fleets = st.builds(Fleet, ready=st.integers(0, 5), load_seconds=st.just(float(LOAD)), replicas_max=st.just(10_000))
pairs = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 400)), min_size=1, max_size=30)


def in_time(replicas: int, fleet: Fleet, jobs: list[Job], running: list[int]) -> bool:
    """Whether greedy replicas, the earliest deadline first, end every job in time."""
    there = min(replicas, fleet.ready)
    free = [NOW + each for each in running] + [NOW] * (there - len(running)) + [NOW + LOAD] * (replicas - there)
    heapq.heapify(free)
    for job in sorted(jobs, key=lambda each: each.deadline):
        end = heapq.heappop(free) + job.seconds
        if end > job.deadline:
            return False
        heapq.heappush(free, end)
    return True


def bounded(replicas: int, fleet: Fleet, jobs: list[Job], running: list[int]) -> bool:
    """Both bounds that the code promises, taken literally: by the work before a job, or by the jobs before it."""
    before, there = float(sum(running)), min(replicas, fleet.ready)
    for number, job in enumerate(sorted(jobs, key=lambda each: each.deadline), start=len(running)):
        slack = job.deadline - job.seconds - NOW
        given = there * max(0, slack) + max(0, replicas - fleet.ready) * max(0.0, slack - LOAD)
        by_work = given >= before and slack >= (0 if there else LOAD)
        by_number = number < replicas and slack >= (0 if number < fleet.ready else LOAD)
        if not by_work and not by_number:
            return False
        before += job.seconds
    return True


def feasible(drawn: list[tuple[int, int]]) -> list[Job]:
    """Deadlines that enough replicas meet, however many that is."""
    return [Job(float(seconds), NOW + LOAD + seconds + slack) for seconds, slack in drawn]


@given(fleet=fleets, drawn=pairs, data=st.data())
def test_they_are_enough_and_one_less_is_not_known_to_be(
    fleet: Fleet, drawn: list[tuple[int, int]], data: st.DataObject
) -> None:
    jobs = feasible(drawn)
    running = data.draw(st.lists(st.integers(1, 60), max_size=fleet.ready))
    replicas = replicas_in_time(jobs, running, fleet, NOW)
    assert replicas >= 1
    assert bounded(replicas, fleet, jobs, running)
    assert replicas == 1 or not bounded(replicas - 1, fleet, jobs, running)
    # What runs keeps the replicas that it has: fewer cannot be had before it has ended.
    assert in_time(max(replicas, len(running)), fleet, jobs, running)


@given(fleet=fleets, drawn=pairs, late=pairs)
def test_what_nobody_can_meet_changes_nothing(
    fleet: Fleet, drawn: list[tuple[int, int]], late: list[tuple[int, int]]
) -> None:
    jobs = feasible(drawn)
    hopeless = [Job(float(seconds), NOW + seconds - 0.5) for seconds, _ in late]
    assert replicas_in_time([*hopeless, *jobs], (), fleet, NOW) == replicas_in_time(jobs, (), fleet, NOW)


@given(ready=st.integers(0, 5), most=st.integers(1, 6), drawn=pairs, running=st.lists(st.integers(0, 300), max_size=3))
def test_never_more_than_there_may_be(ready: int, most: int, drawn: list[tuple[int, int]], running: list[int]) -> None:
    jobs = [Job(float(seconds), NOW + due) for seconds, due in drawn]
    assert 0 <= replicas_in_time(jobs, running, Fleet(ready, float(LOAD), most), NOW) <= most
