"""How long work waits for a pool, from what is there and who serves it."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.estimate import Estimate, ahead, estimate, soonest_at_most
from admission.wait import Wait
from schemas.request import LANES, Lane
from tests.unit.admission.scene import HOME, Partition, request

WEIGHTS: Mapping[Lane, float] = {"interactive": 16.0, "standard": 4.0, "bulk": 1.0}
seconds = st.one_of(st.just(0.0), st.floats(1e-3, 1e7))
backlogs = st.fixed_dictionaries(dict.fromkeys(LANES, seconds))
lanes = st.sampled_from(LANES)


@pytest.mark.parametrize(
    ("lane", "backlog", "expected"),
    [
        ("standard", {}, 0),
        ("standard", {"standard": 100}, 100),
        ("standard", {"standard": 100, "interactive": 1e9, "bulk": 1e9}, 100 + 400 + 25),
        ("standard", {"standard": 100, "interactive": 30, "bulk": 7}, 137),
        ("interactive", {"interactive": 16, "standard": 1e9}, 16 + 4),
        ("bulk", {"bulk": 1, "standard": 1e9, "interactive": 2}, 1 + 4 + 2),
        ("interactive", {"standard": 1e9, "bulk": 1e9}, 0),
    ],
)
def test_what_is_done_before_the_end_of_a_lane(lane: Lane, backlog: Mapping[str, float], expected: float) -> None:
    assert ahead(backlog, lane, WEIGHTS) == pytest.approx(expected)


@given(backlog=backlogs, lane=lanes)
def test_it_is_at_least_the_lane_and_at_most_everything(backlog: dict[str, float], lane: Lane) -> None:
    assert backlog[lane] <= ahead(backlog, lane, WEIGHTS) <= sum(backlog.values()) * (1 + 1e-12)


@given(backlog=backlogs, lane=lanes, other=lanes, more=seconds)
def test_more_work_never_makes_it_less(backlog: dict[str, float], lane: Lane, other: Lane, more: float) -> None:
    grown = backlog | {other: backlog[other] + more}
    assert ahead(grown, lane, WEIGHTS) >= ahead(backlog, lane, WEIGHTS)


@given(backlog=backlogs)
def test_the_lane_that_is_emptied_last_has_everything_before_it(backlog: dict[str, float]) -> None:
    last = max(LANES, key=lambda lane: backlog[lane] / WEIGHTS[lane])
    assert ahead(backlog, last, WEIGHTS) == pytest.approx(sum(backlog.values()))


def test_a_pool_that_sleeps_is_woken_by_one_gpu_and_unknown_ones_are_not_told() -> None:
    asleep, unknown = Estimate(120.0, 0, 4), Estimate(120.0, None, 4)
    assert (asleep.now_seconds, asleep.soonest_seconds) == (120, 30)
    assert str(asleep) == "30 s with all 4 GPUs (none runs now, and the start of the first comes on top)"
    assert str(unknown) == "30 s with all 4 GPUs"
    assert str(Estimate(120.0, 1, 4)) == "30 s with all 4 GPUs, 120 s with the 1 there now"
    assert str(Estimate(120.0, 4, 4)) == "30 s with all 4 GPUs"
    assert str(Estimate(120.0, 1, 1)) == "120 s with its one GPU"
    assert Estimate(120.0, 6, 4).soonest_seconds == 20  # somebody scaled it by hand


def test_our_own_work_is_counted_as_it_is_and_that_of_others_as_they_told() -> None:
    partition = Partition()
    told = {HOME: {"standard": 1000.0}, HOME + 1: {"standard": 7.0, "bulk": 5.0}}
    world = replace(partition.world, waits={"default": Wait({"standard": 1007.0, "bulk": 5.0}, told, gpus=2)})
    for number in range(3):
        partition.send(request(f"r{number}"))
    found = estimate("default", "bulk", partition.state, world)
    assert found.ahead_gpu_seconds == pytest.approx(5 + 7 + 3 * 2.0)
    assert (found.gpus, found.full) == (2, 4)


@given(
    backlog=backlogs,
    gpus=st.none() | st.integers(0, 9),
    ours=st.lists(st.sampled_from(LANES), max_size=4),
    ended=st.integers(0, 4),
)
def test_no_lane_waits_longer_than_the_quick_answer(
    backlog: dict[str, float], gpus: int | None, ours: list[Lane], ended: int
) -> None:
    partition = Partition()
    for number, lane in enumerate(ours):
        partition.send(request(f"r{number}", priority=lane))
    for job_id in list(partition.state.outstanding)[:ended]:
        partition.finish(job_id)
    world = replace(partition.world, waits={"default": Wait(backlog, {}, gpus=gpus)})
    most = soonest_at_most("default", partition.state, world)
    found = [estimate("default", lane, partition.state, world).soonest_seconds for lane in LANES]
    assert max(found) <= most * (1 + 1e-9)
    assert most == pytest.approx(max(found))  # and it is no guess: the lane that is emptied last waits so long
