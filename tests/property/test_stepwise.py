"""Invariance: alone, in each slot, with any neighbours, joining at any step: the same latents and the same bytes."""

from collections import deque
from dataclasses import replace
from functools import cache
from itertools import count
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gpu_consumer.engine.stepwise.request import Ended, Made, Request
from gpu_consumer.engine.stepwise.slots import Slots
from gpu_consumer.models.families import FAMILIES
from tests.stepwise import PAIRS, SHAPE, finish, loaded, made, request, sha256, stepwise
from tests.tiny import models

__all__ = ["models"]

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

STEPS_MAX = 5
SCHEDULERS = {family: [scheduler for of, scheduler in PAIRS if of == family] for family in FAMILIES}


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


# Few values of each, so that what a request gives alone is mostly known already; every combination is a different draw.
def requests(family: str) -> st.SearchStrategy[Request]:
    return st.builds(
        request,
        prompt=st.sampled_from(["a red circle", "", "日本の城 🏯"]),
        negative=st.sampled_from(["", "grey, blurred"]),
        seed=st.sampled_from([0, 2**64 - 1]),
        scheduler=st.sampled_from(SCHEDULERS[family]),
        steps=st.integers(1, STEPS_MAX),
        guidance_scale=st.sampled_from([1.0, 3.3, 7.5]),
    )


@cache
def alone(models: Path, family: str, one: Request) -> Made:
    engine = stepwise(loaded(models, family))
    engine.join([replace(one, item=replace(one.item, key="target"))])
    return made(finish(engine)["target"])


def same(left: Made, right: Made) -> bool:
    return torch.equal(left.latents, right.latents) and sha256(left) == sha256(right)


@pytest.mark.parametrize("family", FAMILIES)
@given(data=st.data(), joins=st.integers(0, 8), place=st.integers(0, 6), patience=st.integers(0, 5))
@settings(max_examples=20, deadline=None)
def test_neighbours_slot_and_time_change_nothing(
    models: Path, family: str, data: st.DataObject, joins: int, place: int, patience: int
) -> None:
    """First come, first served; `place` is the target's among those of its step, so it is found in every slot."""
    target = data.draw(requests(family))
    # When a neighbour comes, and after how many steps it is told to leave, if it is still there.
    stays = st.tuples(requests(family), st.integers(0, 8), st.none() | st.integers(0, 4))
    others = data.draw(st.lists(stays, max_size=6))
    arrivals = [(at, _named(one, f"n{n}")) for n, (one, at, _) in enumerate(others)]
    arrivals.insert(place, (joins, _named(target, "target")))
    queue = deque(sorted(arrivals, key=lambda arrival: arrival[0]))
    leaving = [(at + stay, f"n{n}") for n, (_, at, stay) in enumerate(others) if stay is not None]
    engine = stepwise(loaded(models, family), decode_wait_steps=patience)
    ended: dict[str, Ended] = {}
    for step in count():
        for at, key in leaving:
            if at <= step:
                engine.leave(key)
        while queue and queue[0][0] <= step and engine.free_slots:
            engine.join([queue.popleft()[1]])
        ended |= {one.request.key: one for one in engine.step()}
        if "target" in ended:
            break
    assert same(made(ended["target"]), alone(models, family, target))


def _named(one: Request, key: str) -> Request:
    return replace(one, item=replace(one.item, key=key))


@pytest.mark.parametrize(("family", "scheduler"), PAIRS)
def test_in_each_slot_at_each_step_it_is_the_same(models: Path, family: str, scheduler: str) -> None:
    # case DIF-08, DIF-10
    other = SCHEDULERS[family][0]
    target = request(prompt="a red circle", negative="grey", seed=7, scheduler=scheduler, steps=3, guidance_scale=5.3)
    expected = alone(models, family, target)
    for slot in range(SHAPE.bucket):
        for joins in range(3):
            engine = stepwise(loaded(models, family))
            engine.join([request(f"n{n}", seed=n, steps=6, scheduler=other) for n in range(slot)])
            for _ in range(joins):
                engine.step()
            engine.join([_named(target, "target")])
            engine.join([request(f"m{n}", seed=9 - n, steps=5, scheduler=other) for n in range(engine.free_slots)])
            assert same(made(finish(engine)["target"]), expected)


class SlotMachine(RuleBasedStateMachine):
    """Any order of joining, drawing and ending: who is where is what a plain model says, and nobody is lost."""

    def __init__(self) -> None:
        super().__init__()
        self.slots = Slots(4)
        self.running: dict[str, int] = {}
        self.drawn: list[str] = []
        self.number = 0

    @precondition(lambda self: len(self.running) < 4)
    @rule()
    def join(self) -> None:
        key = str(self.number)
        self.number += 1
        slot = self.slots.join(key)
        assert slot == min(set(range(4)) - set(self.running.values()))
        self.running[key] = slot

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def draw(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.running)))
        self.slots.draw(key)
        del self.running[key]
        self.drawn.append(key)

    @precondition(lambda self: self.running or self.drawn)
    @rule(data=st.data(), how=st.sampled_from(["made", "failed", "left"]))
    def end(self, data: st.DataObject, how: str) -> None:
        key = data.draw(st.sampled_from([*sorted(self.running), *self.drawn]))
        self.slots.end(key, how)  # type: ignore[arg-type]
        self.running.pop(key, None)
        if key in self.drawn:
            self.drawn.remove(key)

    @invariant()
    def agrees(self) -> None:
        self.slots.check()
        assert self.slots.free == 4 - len(self.running)
        assert self.slots.drawn == len(self.drawn)
        assert self.slots.empty == (not self.running and not self.drawn)
        assert self.number == len(self.running) + len(self.drawn) + sum(
            self.slots.ended(how) for how in ("made", "failed", "left")
        )


TestSlots = SlotMachine.TestCase
TestSlots.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)
