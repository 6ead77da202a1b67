"""VirtualEngine keeps the engine's contract in scaled real time."""

import asyncio
import subprocess
import sys

import pytest

from gpu_consumer.engine.protocol import Ended, EngineDied, Event, Joined, Picture, Pulse
from gpu_consumer.engine.virtual.device import VirtualDevice
from gpu_consumer.engine.virtual.engine import VirtualEngine
from tests.unit.gpu_consumer.engine.virtual.test_loop import batch

SECONDS_MAX = 60


async def until(engine: VirtualEngine, said: list[Event], ended: int) -> None:
    async with asyncio.timeout(SECONDS_MAX):
        while sum(isinstance(event, Ended) for event in said) < ended:
            said += await engine.events()


async def test_pictures_come_and_more_may_be_sent_while_they_are_made() -> None:
    engine = VirtualEngine(scale=0.001)
    await engine.start()
    said: list[Event] = []
    await engine.submit(batch("ab", steps=5))
    await until(engine, said, 1)
    await engine.submit(batch("c", steps=2))
    await until(engine, said, 3)
    assert all(isinstance(event.outcome, Picture) for event in said if isinstance(event, Ended))
    assert any(isinstance(event, Pulse) and event.doing == "load" for event in said)
    assert any(isinstance(event, Pulse) and event.fill for event in said)
    assert len(engine.clock.late) >= 7
    await engine.stop()
    assert not engine.alive


async def test_those_who_left_end_without_a_picture() -> None:
    engine = VirtualEngine(scale=0.001)
    await engine.start()
    await engine.submit(batch("ab", steps=500))
    await engine.leave(["a", "b"])
    said: list[Event] = []
    await until(engine, said, 2)
    assert [event.outcome for event in said if isinstance(event, Ended)] == [None, None]
    await engine.stop()


async def test_a_death_names_those_who_had_a_slot() -> None:
    engine = VirtualEngine(VirtualDevice(load_bytes_per_second=1e15), scale=1.0)
    await engine.start()
    await engine.submit(batch("abcdef", steps=500))
    said: list[Event] = []
    async with asyncio.timeout(SECONDS_MAX):
        while not any(isinstance(event, Joined) for event in said):
            said += await engine.events()
    engine.die()
    with pytest.raises(EngineDied) as death:
        await engine.submit(batch("g"))
    assert death.value.joined == set("abcd")
    await engine.start()
    assert engine.alive
    await engine.stop()


async def test_who_has_ended_is_not_blamed_for_a_death() -> None:
    engine = VirtualEngine(scale=0.001)
    await engine.start()
    await engine.submit(batch("a", steps=1))
    await engine.submit(batch("bcd", steps=500))
    await until(engine, [], 1)
    engine.die()
    with pytest.raises(EngineDied) as death:
        await engine.leave(["b"])
    assert death.value.joined == set("bcd")


async def test_a_wait_for_events_ends_with_the_engine() -> None:
    engine = VirtualEngine(scale=0.001)
    await engine.start()
    await engine.events()
    waiting = asyncio.create_task(engine.events())
    await asyncio.sleep(0)
    engine.die()
    with pytest.raises(EngineDied):
        await asyncio.wait_for(waiting, SECONDS_MAX)


def test_it_imports_no_torch() -> None:
    code = "import sys, gpu_consumer.engine.virtual.engine; sys.exit(int('torch' in sys.modules))"
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(sys.path)})
