"""A trace by the health port: one at a time, of a bounded length, and within a bounded time."""

import asyncio
from collections.abc import Sequence

from aiohttp import ClientSession
from prometheus_client import CollectorRegistry

from gpu_consumer.engine.protocol import EngineDied, Peak, Profiled
from gpu_consumer.profiles import Profiles
from streams.health import HealthServer
from tests.scripted import ScriptedEngine


class Traced(ScriptedEngine):
    """Takes note of what it is asked for."""

    def __init__(self, death: EngineDied | None = None) -> None:
        super().__init__()
        self.asked: asyncio.Queue[int] = asyncio.Queue()
        self._deaf = death

    async def learn(self, peaks: Sequence[Peak]) -> None:
        raise AssertionError("nobody measures here")

    async def profile(self, steps: int) -> None:
        if self._deaf is not None:
            raise self._deaf
        await self.asked.put(steps)


async def post(profiles: Profiles, *queries: str) -> list[tuple[int, bytes]]:
    """What each is answered, all asked at once."""
    health = HealthServer(
        0, live=lambda: None, ready=lambda: None, registry=CollectorRegistry(), routes=profiles.routes()
    )
    await health.start()
    try:
        async with ClientSession() as session:

            async def ask(query: str) -> tuple[int, bytes]:
                async with session.post(f"http://127.0.0.1:{health.port}/profile{query}") as answer:
                    return answer.status, await answer.read()

            return await asyncio.gather(*map(ask, queries))
    finally:
        await health.stop()


async def test_a_trace_comes_when_its_steps_were_made() -> None:
    engine = Traced()
    profiles = Profiles(engine, steps_max=50, wait_seconds=60)
    asking = asyncio.create_task(post(profiles, "?steps=7"))
    assert await engine.asked.get() == 7
    profiles.take(Profiled(b"the trace", 7))
    assert await asking == [(200, b"the trace")]
    profiles.take(Profiled(b"of somebody who has gone", 7))


async def test_a_trace_is_of_a_bounded_length() -> None:
    profiles = Profiles(Traced(), steps_max=50, wait_seconds=60)
    for status, text in await post(profiles, "?steps=0", "?steps=51", "?steps=-1", "?steps=many", "?steps=\u00b2"):
        assert (status, text) == (400, b"steps: a number from 1 to 50\n")


async def test_one_trace_at_a_time() -> None:
    engine = Traced()
    profiles = Profiles(engine, steps_max=50, wait_seconds=60)
    first = asyncio.create_task(profiles.trace(3))
    assert await engine.asked.get() == 3
    assert [status for status, _ in await post(profiles, "?steps=3")] == [409]
    profiles.take(Profiled(b"", 3))
    assert (await first).steps == 3


async def test_an_idle_engine_and_a_dead_one_say_so() -> None:
    [(status, text)] = await post(Profiles(Traced(), steps_max=50, wait_seconds=0.01), "?steps=3")
    assert (status, text) == (504, b"3 steps were not made in 0.01 s; send work, or ask for fewer\n")
    dead = Traced(EngineDied("the engine is not started; start it"))
    [(status, text)] = await post(Profiles(dead, steps_max=50, wait_seconds=60), "?steps=3")
    assert (status, text) == (503, b"the engine is not started; start it\n")
