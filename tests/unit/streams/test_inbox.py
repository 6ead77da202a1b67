"""The queue between an intake and an owner."""

import asyncio

from admission.arrival import Arrival
from streams.inbox import Inbox


def arrival(offset: int) -> Arrival:
    return Arrival(0, offset, 0, None, b"")


async def take(inbox: Inbox, most: int = 10, idle_seconds: float = 5.0) -> list[int]:
    taken = await inbox.take(most, idle_seconds=idle_seconds, linger_seconds=0)
    return [each.offset for each in taken]


async def test_takes_what_was_put_in_order_and_no_more_than_asked() -> None:
    inbox = Inbox(10)
    inbox.open()
    for offset in range(5):
        await inbox.put(arrival(offset))
    assert await take(inbox, 3) == [0, 1, 2]
    assert await take(inbox, 3) == [3, 4]


async def test_a_full_inbox_holds_the_intake_until_there_is_room() -> None:
    inbox = Inbox(2)
    inbox.open()
    await inbox.put(arrival(0))
    await inbox.put(arrival(1))
    third = asyncio.create_task(inbox.put(arrival(2)))
    await asyncio.sleep(0)
    assert not third.done()
    assert await take(inbox) == [0, 1]
    await third
    assert await take(inbox) == [2]


async def test_shut_it_drops_what_is_put_and_blocks_nobody() -> None:
    inbox = Inbox(1)
    await inbox.put(arrival(0))  # never opened: an owner that opens its lease reads its log itself
    inbox.open()
    await inbox.put(arrival(1))
    waiting = asyncio.create_task(inbox.put(arrival(2)))
    await asyncio.sleep(0)
    inbox.shut()
    await waiting
    assert len(inbox) == 0
    inbox.open()
    await inbox.put(arrival(3))
    assert await take(inbox) == [3]


async def test_an_empty_inbox_gives_nothing_when_idle_or_shut() -> None:
    inbox = Inbox(1)
    inbox.open()
    assert await take(inbox, idle_seconds=0.01) == []
    waiting = asyncio.create_task(take(inbox, idle_seconds=60))
    await asyncio.sleep(0)
    inbox.shut()
    assert await waiting == []


async def test_a_batch_that_is_not_full_waits_for_more() -> None:
    inbox = Inbox(10)
    inbox.open()
    taking = asyncio.create_task(inbox.take(10, idle_seconds=60, linger_seconds=0.05))
    await asyncio.sleep(0)
    await inbox.put(arrival(0))
    await asyncio.sleep(0)
    await inbox.put(arrival(1))
    assert [each.offset for each in await taking] == [0, 1]
