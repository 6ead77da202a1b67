"""Which changes share a transaction, and which is the last."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gpu_consumer.index import Index, finish, mark
from gpu_consumer.intake import Cursor
from gpu_consumer.ledger import Mark
from schemas.request import LANES
from streams.kafka.errors import LeaseVoid
from streams.kafka.lease import Transaction
from streams.kafka.sending import Output
from streams.kafka.settings import KafkaSettings
from tests.kafka import POOL, small_catalogue

MINE = Mark("me", 0, 5000)


class FakeLease:
    void = False
    is_open = False

    def __init__(self) -> None:
        self.written: list[Transaction] = []

    @property
    def sizes(self) -> list[int]:
        return [sum(len(output.value or b"") for output in each.outputs) for each in self.written]

    async def open(self, _: object) -> None:
        """Nothing was written before."""

    async def transact(self, build: Callable[[], Transaction]) -> None:
        await asyncio.sleep(0)
        self.written.append(build())


def index() -> tuple[Index, FakeLease]:
    made = Index(KafkaSettings(bootstrap_servers="127.0.0.1:1"), small_catalogue("t"), POOL, 0)
    lease: Any = FakeLease()
    made._lease = lease
    return made, lease


async def test_what_is_asked_for_at_once_is_written_at_once() -> None:
    made, lease = index()
    await asyncio.gather(*(made.write([finish("bulk", n)]) for n in range(300)))
    assert made.ledger("bulk").watermark == 300
    assert len(lease.sizes) <= 2


async def test_an_offset_is_written_when_it_is_opened_and_where_it_moved() -> None:
    """Marks move none, nor does what is finished out of order: its ledger is what counts."""
    made, lease = index()
    await made.open()
    for change in (mark("bulk", 0, MINE), finish("bulk", 1), finish("bulk", 0), finish("standard", 0)):
        await made.write([change])
    offsets = [{at.topic.split(".")[-1]: offset for at, offset in each.offsets.items()} for each in lease.written]
    assert offsets == [dict.fromkeys(LANES, 0), {}, {}, {"bulk": 2}, {"standard": 1}]


async def test_large_dead_letters_do_not_share_one_transaction() -> None:
    """It would not be through before its deadline; the lease would be void, and the same would come again."""
    made, lease = index()
    letter = Output("dead-letters", 0, None, b"x" * (1 << 20))
    await asyncio.gather(*(made.write([finish("bulk", n, letter)]) for n in range(40)))
    assert made.ledger("bulk").watermark == 40
    assert max(lease.sizes) < 12 << 20


async def test_marks_that_are_being_written_are_handed_back_too() -> None:
    """As by a claim that is under way when the grace of a drain is over."""
    made, lease = index()
    lease.is_open = True
    made._cursors = dict.fromkeys(LANES, Cursor(0))
    await made.write([mark("bulk", 1, replace(MINE, incarnation="other"))])
    claim = asyncio.create_task(made.write([mark("standard", 2, MINE)]))
    await asyncio.sleep(0)
    await made.hand_back("me")
    await claim
    assert {lane: made.ledger(lane).marks.keys() for lane in LANES} == {
        "interactive": set(),
        "standard": set(),
        "bulk": {1},
    }
    transactions = len(lease.sizes)
    await made.hand_back("me")
    assert len(lease.sizes) == transactions, "there is nothing more to hand back"


async def test_an_index_that_is_lost_hands_back_and_writes_nothing_else() -> None:
    made, lease = index()
    lease.is_open = True
    made._cursors = dict.fromkeys(LANES, Cursor(0))
    await made.write([mark("bulk", n, replace(MINE, engine_deaths=n)) for n in range(3)])
    made.lose()
    with pytest.raises(LeaseVoid):
        await made.write([finish("bulk", 0)])
    await made.hand_back("me", lambda lane, offset: (lane, offset) == ("bulk", 2))
    marks = made.ledger("bulk").marks
    assert {offset: each.incarnation for offset, each in marks.items()} == {1: "", 2: "me"}
    assert marks[1].engine_deaths == 1, "its deaths stay counted"
    lease.is_open = False
    await made.hand_back("me")
    assert made.ledger("bulk").marks.keys() == {1, 2}, "somebody else has the lease"
