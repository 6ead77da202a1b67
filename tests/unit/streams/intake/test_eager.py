"""Begun at once, it ends as it would have in a task."""

import asyncio
from collections.abc import Callable

import pytest

from streams.intake.eager import Begun, begin


async def work(gate: asyncio.Event, said: list[str]) -> str:
    said.append("begun")
    try:
        await gate.wait()
        await asyncio.sleep(0)
    finally:
        said.append("left")
    return "done"


def opened() -> asyncio.Event:
    gate = asyncio.Event()
    gate.set()
    return gate


async def at_once(said: list[str]) -> None:
    await opened().wait()
    said.append("ended")


async def test_what_does_not_wait_is_over_at_once() -> None:
    said: list[str] = []
    assert begin(at_once(said)) is None
    assert said == ["ended"]


@pytest.mark.parametrize("as_task", [True, False])
async def test_what_waits_goes_on_where_it_is_awaited(as_task: bool) -> None:
    gate, said = asyncio.Event(), list[str]()
    begun = begin(work(gate, said))
    assert said == ["begun"]
    assert begun is not None

    async def rest(begun: Begun) -> object:
        return await begun

    asyncio.get_running_loop().call_soon(gate.set)
    assert await (asyncio.create_task(rest(begun)) if as_task else begun) == "done"
    assert said == ["begun", "left"]


async def test_a_cancel_reaches_it() -> None:
    said: list[str] = []
    begun = begin(work(asyncio.Event(), said))
    assert begun is not None
    task = asyncio.ensure_future(begun)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert said == ["begun", "left"]


async def test_a_cancel_that_it_survives_does_not_end_it() -> None:
    async def stubborn(gate: Callable[[], asyncio.Event]) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
        await gate().wait()
        return "done"

    begun = begin(stubborn(opened))
    assert begun is not None
    task = asyncio.ensure_future(begun)
    await asyncio.sleep(0)
    task.cancel()
    assert await task == "done"


async def test_what_it_raises_passes() -> None:
    async def fails(after: asyncio.Event) -> None:
        await after.wait()
        raise LookupError("nothing there")

    with pytest.raises(LookupError):
        begin(fails(opened()))
    gate = asyncio.Event()
    begun = begin(fails(gate))
    assert begun is not None
    gate.set()
    with pytest.raises(LookupError):
        await begun


async def test_a_cancel_that_ends_it_in_peace_ends_it_so() -> None:
    async def content() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "done"
        return "never"

    begun = begin(content())
    assert begun is not None
    task = asyncio.ensure_future(begun)
    await asyncio.sleep(0)
    task.cancel()
    assert await task == "done"


async def test_every_cancel_reaches_it() -> None:
    said: list[str] = []

    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            try:
                await asyncio.Event().wait()
            finally:
                said.append("left")

    begun = begin(slow())
    assert begun is not None
    task = asyncio.ensure_future(begun)
    for _ in range(2):
        await asyncio.sleep(0)
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert said == ["left"]
