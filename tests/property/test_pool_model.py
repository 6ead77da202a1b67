"""No job is lost, none runs twice while its mark is held, and no mark is left, whatever happens to a pool."""

import asyncio
import random
from collections import Counter
from collections.abc import Coroutine
from random import Random
from typing import Any

import pytest

from schemas.names import request_name
from tests.property.pool_model.clock import VirtualTimeLoop
from tests.property.pool_model.member import Member
from tests.property.pool_model.world import INDEXES, Rates, World, a_job

SECONDS = 60.0  # in which things happen
SECONDS_MAX = 7200.0  # until all is done; marks that nobody stands behind are waited for
LOOK_SECONDS = 0.25


async def happen(world: World) -> None:
    """Until SECONDS are over. The first member is the only one that nothing happens to while there is no other."""
    dice, loop, rates = world.random, asyncio.get_running_loop(), world.rates
    aside: set[asyncio.Task[None]] = set()
    made = 0
    while loop.time() < SECONDS:
        await asyncio.sleep(LOOK_SECONDS)
        if not (rates.kills or rates.deaths or rates.doubts) and world.hand_over_seconds:
            world.look_for_idle_marks()
        alive = [member for member in world.members.values() if not member.dead and not member.closing]
        for rate, what in vars(rates).items():  # poison and doubts come by themselves
            if dice.random() >= what * LOOK_SECONDS or not alive:
                continue
            member = dice.choice(alive)
            act: Coroutine[Any, Any, None] | None = None
            if rate == "joins" and len(alive) < INDEXES:
                await world.start()
            elif rate == "drains" and len(alive) > 1:
                act = member.drain()
            elif rate == "kills" and len(alive) > 1:
                act = member.kill()
            elif rate == "deaths":
                member.engine.die()
            elif rate == "cancels" and made:
                item = dice.choice([item for items in world.work for item in items])
                for each in world.members.values():
                    each.cancel(request_name(item.tenant, item.request_id))
            if act is not None:
                alive.remove(member)
                aside.add(asyncio.create_task(act))
        while dice.random() < 0.4:
            world.produce(a_job(world, made, loop.time()))
            made += 1
    await asyncio.gather(*aside)


async def history(world: World) -> None:
    loop = asyncio.get_running_loop()
    for _ in range(2):
        await world.start()
    await happen(world)
    if not world.members:
        await world.start()
    while not world.done:
        assert loop.time() < SECONDS_MAX, "something waits for ever"
        raise_bugs(world)
        await asyncio.sleep(1.0)
    await asyncio.sleep(5.0)
    check_end(world)
    await asyncio.gather(*(member.drain() for member in list(world.members.values())))
    raise_bugs(world)


def raise_bugs(world: World) -> None:
    if world.bugs:
        raise BaseExceptionGroup("bugs", world.bugs)


def check_end(world: World) -> None:
    asked = [item.request_id for items in world.work for item in items]
    told = Counter(result.request_id for result in world.published)
    assert told == Counter(asked), "one result a job"
    for result in world.published:
        if result.status == "succeeded":
            assert world.outcomes[result.job_id].result == result, "what is published is what is stored"
    for number, items in enumerate(world.work):
        ledger = world.ledger(number)
        assert (ledger.watermark, ledger.bits, ledger.marks) == (len(items), 0, {})
    for member in world.members.values():
        assert not member.backlog.jobs
        assert not member.runner.running
        assert not member.runner._claims._until_ms
        member.backlog.scheduler.check_integrity()


def play(seed: int, rates: Rates, **settings: Any) -> World:
    world = World(Random(seed), rates, Member, **settings)
    random.seed(seed)  # of Backoff
    try:
        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            runner.run(history(world))
    except BaseException as error:
        error.add_note(f"in the history of seed {seed}")
        raise
    return world


# What a single history brings depends on every pause of what is tested, so what must have come is asked of several.


@pytest.mark.parametrize("hand_over_seconds", [0.25, 0.0], ids=["handed over", "fenced first"])
def test_whatever_happens_each_job_ends_once_and_no_mark_is_left(hand_over_seconds: float) -> None:
    worlds = [play(seed, Rates(), hand_over_seconds=hand_over_seconds) for seed in range(1, 4)]
    assert sum(len(world.everybody) for world in worlds) > 2 * len(worlds), "some came"
    assert len({result.status for world in worlds for result in world.published}) == 4, "and jobs ended in every way"


def test_where_partitions_only_move_nobody_waits_for_what_is_not_made() -> None:
    calm = Rates(joins=0.15, drains=0.1, kills=0.0, deaths=0.0, doubts=0.0, poison=0.0)
    assert sum(play(seed, calm).generation for seed in (4, 5)) > 6, "they moved"
