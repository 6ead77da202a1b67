"""The queue between an intake and an owner."""

import asyncio
import time

from admission.arrival import Arrival
from streams.inbox import Inbox, batch_length


def arrival(offset: int) -> Arrival:
    return Arrival(0, offset, 0, None, b"")


async def take(inbox: Inbox, most: int = 10, idle_seconds: float = 5.0) -> list[int]:
    taken = await inbox.take(most, 1 << 20, idle_seconds=idle_seconds, linger_seconds=0)
    return [each.offset for each in taken]


async def turns() -> None:
    """Whatever waits for no clock is over then."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_takes_what_was_put_in_order_and_no_more_than_asked() -> None:
    inbox = Inbox(10, 1 << 20)
    inbox.open()
    for offset in range(5):
        await inbox.put([arrival(offset)])
    assert await take(inbox, 3) == [0, 1, 2]
    assert await take(inbox, 3) == [3, 4]


async def test_a_full_inbox_holds_the_intake_until_there_is_room() -> None:
    inbox = Inbox(2, 1 << 20)
    inbox.open()
    await inbox.put([arrival(0)])
    await inbox.put([arrival(1)])
    third = asyncio.create_task(inbox.put([arrival(2)]))
    await asyncio.sleep(0)
    assert not third.done()
    assert await take(inbox) == [0, 1]
    await third
    assert await take(inbox) == [2]


async def test_shut_it_drops_what_is_put_and_blocks_nobody() -> None:
    inbox = Inbox(1, 1 << 20)
    await inbox.put([arrival(0)])  # never opened: an owner that opens its lease reads its log itself
    inbox.open()
    await inbox.put([arrival(1)])
    waiting = asyncio.create_task(inbox.put([arrival(2)]))
    await asyncio.sleep(0)
    inbox.shut()
    await waiting
    assert len(inbox) == 0
    inbox.open()
    await inbox.put([arrival(3)])
    assert await take(inbox) == [3]


async def test_an_empty_inbox_gives_nothing_when_idle_or_shut() -> None:
    inbox = Inbox(1, 1 << 20)
    inbox.open()
    assert await take(inbox, idle_seconds=0.01) == []
    waiting = asyncio.create_task(take(inbox, idle_seconds=60))
    await asyncio.sleep(0)
    inbox.shut()
    assert await waiting == []


async def test_a_batch_that_is_not_full_waits_for_more() -> None:
    inbox = Inbox(10, 1 << 20)
    inbox.open()
    taking = asyncio.create_task(inbox.take(10, 1 << 20, idle_seconds=60, linger_seconds=0.05))
    await asyncio.sleep(0)
    await inbox.put([arrival(0)])
    await asyncio.sleep(0)
    await inbox.put([arrival(1)])
    assert [each.offset for each in await taking] == [0, 1]


async def test_what_comes_after_a_rest_waits_no_more_for_it() -> None:
    inbox = Inbox(10, 1 << 20)
    inbox.open()
    rest_until = time.monotonic() + 0.05
    taking = asyncio.create_task(inbox.take(10, 1 << 20, idle_seconds=60, linger_seconds=0, rest_until=rest_until))
    while time.monotonic() < rest_until:  # noqa: ASYNC110 -- a clock has no event
        await asyncio.sleep(0)
    await inbox.put([arrival(0)])
    await turns()
    assert taking.done()


async def test_what_comes_within_a_rest_waits_for_its_end() -> None:
    inbox = Inbox(10, 1 << 20)
    inbox.open()
    await inbox.put([arrival(0)])
    rest_until = time.monotonic() + 3600
    taking = asyncio.create_task(inbox.take(10, 1 << 20, idle_seconds=60, linger_seconds=0, rest_until=rest_until))
    await turns()
    assert not taking.done()
    taking.cancel()


def large(offset: int) -> Arrival:
    return Arrival(0, offset, 0, None, b"x" * 600)


async def test_bytes_fill_an_inbox_too_and_one_that_is_too_large_passes_alone() -> None:  # case KQ-17
    inbox = Inbox(1000, 500)
    inbox.open()
    await inbox.put([large(0)])
    second = asyncio.create_task(inbox.put([large(1)]))
    await asyncio.sleep(0)
    assert not second.done()
    assert await take(inbox) == [0]
    await second
    inbox.shut()
    inbox.open()
    await asyncio.wait_for(inbox.put([large(2)]), 60)
    assert await take(inbox) == [2]


async def test_a_batch_is_bounded_in_bytes() -> None:
    inbox = Inbox(1000, 1 << 20)
    inbox.open()
    for offset in range(5):
        await inbox.put([large(offset)])
    sizes = [len(await inbox.take(10, 1300, idle_seconds=5, linger_seconds=0)) for _ in range(3)]
    assert sizes == [2, 2, 1]
    assert batch_length([large(0), large(1)], 10, 1) == 1
    assert batch_length([arrival(0)] * 5, 3, 1) == 3
    assert batch_length([], 3, 1) == 0
