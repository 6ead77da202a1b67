"""What every engine promises, of two processes with one copy of the weights that are one engine."""

import asyncio
import contextlib
import gc
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from gpu_consumer.engine.process import EngineProcess
from gpu_consumer.engine.protocol import Batch, Drawn, EngineDied, Item, Joined, Peak, Profiled, Pulse
from gpu_consumer.engine.settings import EngineSettings
from gpu_consumer.engine.team import EngineTeam
from schemas.config import GenerationConfig, ModelRef
from tests.contract.engines import MEMORY, changed, config, entries, settings
from tests.streaming import PATIENCE, Heard, digests, run
from tests.tiny import models, tiny_config

__all__ = ["config", "models", "settings"]

# One loop for the module: a started team is dear, and is shared by all tests that leave it as it was.
pytestmark = pytest.mark.asyncio(loop_scope="module")

WORKERS = 2
MANY = tuple(Item(f"item {n}", f"a circle, number {n}", "blurred", n) for n in range(10))


def weights(pid: int) -> set[str]:
    """The inodes of the shared weights that a process has mapped."""
    lines = [line.split() for line in Path(f"/proc/{pid}/maps").read_text().splitlines() if "kiln-weights" in line]
    return {line[4] for line in lines}


def shared_bytes(pid: int) -> tuple[int, int]:
    """Of the weights that a process has mapped: what is resident, and its part where each sharer bears its own."""
    resident = proportional = 0
    ours = False
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        name, *words = line.split()
        if not name.endswith(":"):
            ours = "kiln-weights" in line
        elif ours and name == "Rss:":
            resident += int(words[0]) << 10
        elif ours and name == "Pss:":
            proportional += int(words[0]) << 10
    return resident, proportional


def is_gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def team(config: GenerationConfig, settings: EngineSettings) -> AsyncIterator[EngineTeam]:
    team = EngineTeam(settings, [config], workers=WORKERS)
    await team.start()
    yield team
    pids = team.pids
    await team.stop()
    assert all(map(is_gone, pids))


async def full(team: EngineTeam, config: GenerationConfig) -> Heard:
    """Both run a full batch that will not end by itself soon."""
    heard = Heard(team)
    await team.submit(Batch(changed(config, steps=500), MANY[:8]))
    await heard.until(lambda: len(heard.joined) == 8)
    return heard


async def test_there_is_one_copy_of_the_weights(team: EngineTeam, config: GenerationConfig) -> None:
    await run(team, config, *MANY)
    first, second = team.pids
    assert weights(first) == weights(second) != set()
    for pid in team.pids:
        resident, proportional = shared_bytes(pid)
        assert resident > 1 << 20
        assert proportional == pytest.approx(resident / WORKERS, rel=0.05)


async def test_all_of_them_draw_what_one_alone_draws(
    team: EngineTeam, settings: EngineSettings, config: GenerationConfig
) -> None:
    one = EngineProcess(settings, [config])
    ready = await one.start()
    try:
        for each in (config, changed(config, batching="whole")):
            expected = digests(await run(one, each, *MANY[:4]))
            alone = digests(await run(team, each, *MANY[:4]))
            assert alone == expected
        expected = {}
        for items in (MANY[:4], MANY[4:8], MANY[8:]):
            expected |= digests(await run(one, config, *items))
    finally:
        await one.stop()
    heard = await run(team, config, *MANY)
    assert digests(heard) == expected
    assert {picture.bucket for picture in heard.pictures.values()} == {config.bucket}
    again = EngineTeam(settings, [config], workers=WORKERS, answers=dict.fromkeys(ready.answers, "0" * 64))
    with pytest.raises(EngineDied, match="another one"):
        await again.start()
    assert not again.alive
    assert again.pids == ()


async def test_it_has_the_slots_of_all_and_fills_the_fullest_first(team: EngineTeam, config: GenerationConfig) -> None:
    long = changed(config, steps=300)
    heard = Heard(team)
    await team.submit(Batch(long, MANY[:3]))
    await heard.until(lambda: any(pulse.fill == 3 for pulse in heard.of(Pulse)))
    assert heard.of(Pulse)[-1].slots == WORKERS * config.bucket
    await team.submit(Batch(long, MANY[3:]))
    await heard.until(lambda: any(pulse.fill == 8 for pulse in heard.of(Pulse)) and len(heard.joined) >= 8)
    assert heard.of(Joined)[0].keys == tuple(item.key for item in MANY[:3])
    assert len(heard.joined) == 8, "two wait for a slot"
    await team.leave([item.key for item in MANY])
    await heard.until_ended(item.key for item in MANY)
    assert not heard.pictures
    await team.submit(Batch(long, MANY[:3]))
    await heard.until(lambda: len(heard.joined) == 11)
    again = await run(team, config, MANY[3])
    assert again.ended[MANY[3].key].share.batch_size == config.bucket, "it filled up the batch that ran"
    await team.leave([item.key for item in MANY])
    left = Heard(team)
    await left.until_ended(item.key for item in MANY[:3])


async def test_two_whole_batches_run_beside_each_other(team: EngineTeam, config: GenerationConfig) -> None:
    whole = changed(config, batching="whole")
    long = changed(whole, steps=500)
    heard = Heard(team)
    for one, items in ((long, MANY[:4]), (long, MANY[4:8]), (whole, MANY[8:])):
        await team.submit(Batch(one, items))
    await heard.until(lambda: len(heard.joined) >= 8)
    assert set(heard.joined) == {item.key for item in MANY[:8]}
    assert not heard.drawn, "neither waited for the other"
    await team.leave([item.key for item in MANY[:8]])
    await heard.until_ended(item.key for item in MANY)
    assert heard.pictures.keys() == {item.key for item in MANY[8:]}
    assert len((await run(team, whole, *MANY)).pictures) == len(MANY)


async def test_strictly_in_order_across_kinds(team: EngineTeam, config: GenerationConfig) -> None:
    wide = changed(config, width=96)
    heard = Heard(team)
    order = [(config, MANY[0:5]), (wide, MANY[5:6]), (config, MANY[6:8])]
    for one, items in order:
        await team.submit(Batch(one, items))
    await heard.until_ended(item.key for item in MANY[:8])
    assert sorted(heard.joined) == sorted(item.key for item in MANY[:8])
    for n, (_, items) in enumerate(order[1:]):
        joined = min(heard.place(Joined, item.key) for item in items)
        for before in order[n][1]:  # the slots of the one kind are free before the other takes them
            assert heard.place(Drawn, before.key) < joined
    assert len(heard.pictures) == 8


async def test_who_leaves_is_gone_wherever_it_is(team: EngineTeam, config: GenerationConfig) -> None:
    heard = await full(team, config)
    await team.submit(Batch(config, MANY[8:]))
    await team.leave([*(item.key for item in MANY[::2]), "not here"])
    await heard.until_ended(item.key for item in MANY[::2])
    assert not heard.pictures.keys() & {item.key for item in MANY[::2]}
    await heard.until_ended([MANY[9].key])
    await team.leave([item.key for item in MANY[1:8:2]])
    await heard.until_ended(item.key for item in MANY)
    assert heard.pictures.keys() == {MANY[9].key}


async def test_who_waits_is_gone_at_once_whatever_the_workers_do(team: EngineTeam, config: GenerationConfig) -> None:
    heard = await full(team, config)
    await team.submit(Batch(config, MANY[8:]))
    last = Item("last", "", "", 0)
    await team.submit(Batch(changed(config, width=96), (last,)))
    for pid in team.pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        with contextlib.suppress(TimeoutError):
            while True:  # all that they said before
                async with asyncio.timeout(0.5):
                    heard.events += await team.events()
        hearing = asyncio.create_task(heard.until_ended(["last"]))
        await asyncio.sleep(0)
        await team.leave(["last"])
        await hearing
    finally:
        for pid in team.pids:
            os.kill(pid, signal.SIGCONT)
    await team.leave([item.key for item in MANY])
    await heard.until_ended(item.key for item in MANY)


async def test_a_cancelled_wait_loses_nothing(team: EngineTeam, config: GenerationConfig) -> None:
    heard = Heard(team)
    await team.submit(Batch(config, MANY))
    async with asyncio.timeout(PATIENCE):
        while len(heard.ended) < len(MANY):
            try:
                async with asyncio.timeout(0.001):
                    heard.events += await team.events()
            except TimeoutError:
                continue
    assert sorted(heard.joined) == sorted(item.key for item in MANY)
    assert len(heard.pictures) == len(MANY)


async def test_a_model_that_is_missing_is_said_and_the_others_go_on(team: EngineTeam, config: GenerationConfig) -> None:
    absent = changed(config, model=ModelRef(name="absent", digest="sha256:" + "0" * 64))
    heard = Heard(team)
    await team.submit(Batch(absent, MANY[:2]))
    await team.submit(Batch(config, MANY[2:4]))
    await heard.until_ended(item.key for item in MANY[2:4])
    await heard.until(lambda: len(heard.refused) == 2)
    assert set(heard.refused) == {item.key for item in MANY[:2]}


async def test_what_is_not_preloaded_is_served_too(team: EngineTeam, models: Path, config: GenerationConfig) -> None:
    sdxl = tiny_config(models, "sdxl")
    before = digests(await run(team, config, *MANY[:4]))
    await run(team, sdxl, *MANY[:6])
    assert digests(await run(team, config, *MANY[:4])) == before
    pulses = (await run(team, sdxl, *MANY[:6])).of(Pulse)
    assert set(pulses[-1].models) == {config.model_key, sdxl.model_key}


async def test_memory_is_told_of_all_together(team: EngineTeam, config: GenerationConfig) -> None:
    await team.learn([Peak(config.kind, config.bucket, 7 << 20)])
    heard = await full(team, config)
    await heard.until(lambda: [pulse.fill for pulse in heard.of(Pulse)][-1:] == [8])
    memory = heard.of(Pulse)[-1].memory
    await team.leave([item.key for item in MANY])
    await heard.until_ended(item.key for item in MANY[:8])
    assert 0 < memory.allocated < memory.predicted + (1 << 26)
    assert 0 < memory.free <= MEMORY // WORKERS


async def test_a_trace_is_of_one_of_them(team: EngineTeam, config: GenerationConfig) -> None:
    heard = Heard(team)
    await team.profile(2)
    await team.submit(Batch(config, MANY))
    await heard.until(lambda: bool(heard.of(Profiled)))
    await heard.until_ended(item.key for item in MANY)
    assert heard.of(Profiled)[0].steps == 2


@pytest.mark.parametrize("which", [0, 1])
async def test_a_death_is_charged_to_what_had_joined_there_and_leaves_nothing_open(
    team: EngineTeam, config: GenerationConfig, which: int
) -> None:
    expected = digests(await run(team, config, *MANY))
    gc.collect()
    starts, pids, open_files = team.starts, team.pids, entries("/proc/self/fd")
    heard = await full(team, config)
    await team.submit(Batch(config, MANY[8:]))
    os.kill(pids[which], signal.SIGKILL)
    with pytest.raises(EngineDied, match=f"worker {which + 1} of 2: .*SIGKILL") as died:
        await heard.until(lambda: False)
    there = [MANY[:4], MANY[4:8]][which]
    assert died.value.joined == {item.key for item in there}
    assert not heard.ended
    assert not team.alive
    with pytest.raises(EngineDied):
        await team.submit(Batch(config, MANY))
    await team.start()
    assert team.starts == starts + 1
    assert all(map(is_gone, pids)), "they live and die as one"
    assert digests(await run(team, config, *MANY)) == expected
    assert weights(team.pids[0]) == weights(team.pids[1]) != set()
    gc.collect()
    assert entries("/proc/self/fd") <= open_files


async def test_a_team_that_is_not_started_says_so(settings: EngineSettings, config: GenerationConfig) -> None:
    team = EngineTeam(settings, workers=WORKERS)
    assert not team.alive
    for call in (lambda: team.submit(Batch(config, MANY)), lambda: team.leave(["a"]), team.events):
        with pytest.raises(EngineDied, match="not started"):
            await call()
    await team.stop()
    await team.stop()
