"""What every engine promises: one suite over the engine process, the instant engine and the virtual one."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio

from gpu_consumer.engine.instant import InstantEngine
from gpu_consumer.engine.process import EngineProcess
from gpu_consumer.engine.protocol import Batch, Drawn, Ended, EngineDied, Item, Joined
from gpu_consumer.engine.settings import EngineSettings
from gpu_consumer.engine.virtual.engine import VirtualEngine
from schemas.config import GenerationConfig
from tests.contract.engines import ITEMS, changed, config, settings, until
from tests.streaming import Heard, digests, run
from tests.tiny import models

__all__ = ["config", "models", "settings"]

# One loop for the module: a started engine is dear, and is shared by all tests that leave it as it was.
pytestmark = pytest.mark.asyncio(loop_scope="module")

AnEngine = EngineProcess | InstantEngine | VirtualEngine
BAD = Item("bad", "a seed beyond 64 bits", "", 2**64)


async def kill(engine: AnEngine) -> None:
    if isinstance(engine, InstantEngine | VirtualEngine):
        engine.die()
        return
    pid = engine.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    await until(lambda: not engine.alive)


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["process", "instant", "virtual"])
async def engine(
    request: pytest.FixtureRequest, config: GenerationConfig, settings: EngineSettings
) -> AsyncIterator[AnEngine]:
    engines: dict[str, Callable[[], AnEngine]] = {
        "process": lambda: EngineProcess(settings, [config]),
        "instant": lambda: InstantEngine(0.2),
        "virtual": VirtualEngine,
    }
    engine = engines[request.param]()
    await engine.start()
    yield engine
    await engine.stop()


async def test_the_same_request_gives_the_same_bytes(engine: AnEngine, config: GenerationConfig) -> None:
    first = await run(engine, config, *ITEMS)
    second = await run(engine, config, *ITEMS)
    assert digests(first) == digests(second)
    assert len(set(digests(first).values())) == len(ITEMS)
    assert all(picture.data.startswith(b"\x89PNG\r\n\x1a\n") for picture in first.pictures.values())


async def test_all_that_is_said_of_an_item_is_said_once_and_in_order(
    engine: AnEngine, config: GenerationConfig
) -> None:
    heard = await run(engine, config, *ITEMS)
    assert heard.joined == [item.key for item in ITEMS]
    assert sorted(heard.drawn) == sorted(heard.joined)
    for item in ITEMS:
        places = [heard.place(said, item.key) for said in (Joined, Drawn, Ended)]
        assert places == sorted(places)
        share = heard.ended[item.key].share
        assert share.batch_size == len(ITEMS)
        assert share.bucket == config.bucket
        assert {"text", "denoise", "decode", "encode"} <= share.timings.keys()
        assert share.gpu_seconds == pytest.approx(sum(share.timings[stage] for stage in ("text", "denoise", "decode")))


async def test_alone_and_in_a_full_batch_the_sha_is_the_same(engine: AnEngine, config: GenerationConfig) -> None:
    together = digests(await run(engine, config, *ITEMS))
    for item in ITEMS:
        assert digests(await run(engine, config, item)) == {item.key: together[item.key]}
    assert digests(await run(engine, config, *ITEMS[::-1])) == together


async def test_seed_nought_is_a_seed(engine: AnEngine, config: GenerationConfig) -> None:
    # case DIF-11
    made = [digests(await run(engine, config, Item("x", "a cat", "", seed))) for seed in (0, 0, 1)]
    assert made[0] == made[1] != made[2]


async def test_a_bad_item_leaves_its_neighbours_as_they_are(engine: AnEngine, config: GenerationConfig) -> None:
    expected = digests(await run(engine, config, *ITEMS[:3]))
    heard = await run(engine, config, ITEMS[0], BAD, *ITEMS[1:3])
    assert digests(heard) == expected
    assert list(heard.flaws) == ["bad"]
    assert heard.flaws["bad"].code == "generation_error"
    assert heard.flaws["bad"].message
    assert {picture.bucket for picture in heard.pictures.values()} == {config.bucket}


@pytest.mark.parametrize("batching", ["step", "whole"])
async def test_who_is_sent_while_others_run_waits_for_a_slot_and_no_longer(
    engine: AnEngine, config: GenerationConfig, batching: str
) -> None:
    # case DIF-07: steps, guidance scale and scheduler differ from slot to slot
    config = changed(config, batching=batching)
    other = changed(config, steps=7, guidance_scale=9.0, scheduler="euler")
    late = tuple(Item(f"late {n}", "a dog", "", n) for n in range(3))
    alone = digests(await run(engine, other, *late))
    heard = Heard(engine)
    await engine.submit(Batch(config, ITEMS))
    await engine.submit(Batch(other, late))
    await heard.until_ended([*(item.key for item in ITEMS), *(item.key for item in late)])
    assert heard.joined == [item.key for item in (*ITEMS, *late)]
    assert {key: digest for key, digest in digests(heard).items() if key.startswith("late")} == alone
    first_late = heard.place(Joined, "late 0")
    assert {key for event in heard.events[:first_late] if isinstance(event, Drawn) for key in event.keys} == set("abcd")


async def test_whoever_finds_a_free_slot_joins_those_that_run(engine: AnEngine, config: GenerationConfig) -> None:
    long = changed(config, steps=200)
    heard = Heard(engine)
    await engine.submit(Batch(long, ITEMS[:2]))
    await heard.until(lambda: len(heard.joined) == 2)
    await engine.submit(Batch(config, ITEMS[2:]))
    await heard.until(lambda: len(heard.joined) == 4)
    assert not heard.ended
    await heard.until_ended(["a", "b", "c", "d"])
    assert len(heard.pictures) == 4


async def test_strictly_in_order_across_kinds(engine: AnEngine, config: GenerationConfig) -> None:
    wide = changed(config, width=96)
    assert wide.kind != config.kind
    heard = Heard(engine)
    for one, items in ((config, ITEMS[:1]), (wide, ITEMS[1:2]), (config, ITEMS[2:])):
        await engine.submit(Batch(one, items))
    await heard.until_ended("abcd")
    assert heard.joined == ["a", "b", "c", "d"]
    assert [event.keys for event in heard.of(Joined)] == [("a",), ("b",), ("c", "d")]
    for before, after in (("a", "b"), ("b", "c")):  # the slots of the one kind are free before the other takes them
        assert heard.place(Drawn, before) < heard.place(Joined, after)


@pytest.mark.parametrize("batching", ["step", "whole"])
async def test_who_is_told_to_leave_is_gone_and_the_others_go_on(
    engine: AnEngine, config: GenerationConfig, batching: str
) -> None:
    config = changed(config, batching=batching, steps=100)  # so that the word reaches it before their end
    expected = digests(await run(engine, config, *ITEMS))
    heard = Heard(engine)
    waiting = Item("waiting", "", "", 1)
    await engine.submit(Batch(config, ITEMS))
    await engine.submit(Batch(config, (waiting,)))
    await heard.until(lambda: len(heard.joined) == 4)
    await engine.leave(["b", "waiting", "not here"])
    await heard.until_ended(["a", "b", "c", "d", "waiting"])
    assert {key for key, one in heard.ended.items() if one.outcome is None} == {"b", "waiting"}
    assert "waiting" not in heard.joined
    assert digests(heard) == {key: digest for key, digest in expected.items() if key != "b"}


@pytest.mark.parametrize("batching", ["step", "whole"])
async def test_when_all_have_left_what_is_next_runs(engine: AnEngine, config: GenerationConfig, batching: str) -> None:
    next_one = digests(await run(engine, config, ITEMS[0]))
    long = changed(config, batching=batching, steps=500)
    heard = Heard(engine)
    await engine.submit(Batch(long, ITEMS[1:]))
    await heard.until(lambda: len(heard.joined) == 3)
    await engine.leave(["b", "c", "d"])
    await engine.submit(Batch(config, ITEMS[:1]))
    await heard.until_ended("abcd")
    assert [heard.ended[key].outcome for key in "bcd"] == [None] * 3
    assert digests(heard) == next_one


async def test_a_cancelled_wait_loses_nothing(engine: AnEngine, config: GenerationConfig) -> None:
    heard = Heard(engine)
    await engine.submit(Batch(config, ITEMS))
    while len(heard.ended) < len(ITEMS):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.001):
                heard.events += await engine.events()
    assert heard.joined == list("abcd")
    assert len(heard.pictures) == 4


async def test_an_idle_engine_that_dies_charges_nobody(engine: AnEngine, config: GenerationConfig) -> None:
    expected = digests(await run(engine, config, *ITEMS))
    starts = engine.starts
    await kill(engine)
    with pytest.raises(EngineDied) as died:
        await Heard(engine).until(lambda: False)
    assert not died.value.joined
    assert not engine.alive
    with pytest.raises(EngineDied) as died:
        await engine.submit(Batch(config, ITEMS))
    assert not died.value.joined
    await engine.start()
    assert engine.starts == starts + 1
    assert digests(await run(engine, config, *ITEMS)) == expected


async def test_a_death_is_charged_to_those_that_had_joined_and_not_ended(
    engine: AnEngine, config: GenerationConfig
) -> None:
    expected = digests(await run(engine, config, *ITEMS))
    long = changed(config, steps=500)
    heard = Heard(engine)
    await engine.submit(Batch(config, (Item("done", "", "", 0),)))
    await heard.until_ended(["done"])
    await engine.submit(Batch(long, ITEMS))
    await engine.submit(Batch(long, (Item("innocent", "", "", 0),)))
    await heard.until(lambda: len(heard.joined) == 5)
    await kill(engine)
    with pytest.raises(EngineDied) as died:
        await heard.until(lambda: False)
    assert died.value.joined == {"a", "b", "c", "d"}
    assert set(heard.ended) == {"done"}
    await engine.start()
    assert digests(await run(engine, config, *ITEMS)) == expected


async def test_an_engine_that_is_not_started_says_so(settings: EngineSettings, config: GenerationConfig) -> None:
    for engine in (EngineProcess(settings), InstantEngine(), VirtualEngine()):
        assert not engine.alive
        for call in (lambda: engine.submit(Batch(config, ITEMS)), lambda: engine.leave(["a"]), engine.events):  # noqa: B023
            with pytest.raises(EngineDied, match="not started"):
                await call()
        await engine.stop()
        await engine.stop()
