from collections.abc import Iterator
from multiprocessing.connection import Connection

import pytest

from gpu_consumer.engine.inbox import HungUp, Inbox
from gpu_consumer.engine.protocol import Batch, Item, Learn, Leave, Peak, Profile
from gpu_consumer.engine.shm import pipe
from schemas.config import GenerationConfig
from tests.unit.gpu_consumer.engine.test_instant import config

NARROW, WIDE = config(), config(width=96)


@pytest.fixture
def ends() -> Iterator[tuple[Connection, Inbox]]:
    ours, theirs = pipe()
    with ours, theirs:
        yield ours, Inbox(theirs)


def batch(config: GenerationConfig, *keys: str) -> Batch:
    return Batch(config, tuple(Item(key, "", "", 0) for key in keys))


def test_strictly_in_order_and_of_one_kind(ends: tuple[Connection, Inbox]) -> None:
    sender, inbox = ends
    for message in (batch(NARROW, "a", "b"), batch(WIDE, "c"), batch(NARROW, "d")):
        sender.send(message)
    assert inbox.read() == []
    assert [one.key for one in inbox.peek(NARROW.kind, 9)] == ["a", "b"]
    assert inbox.take(WIDE.kind, 9) == []
    assert [one.key for one in inbox.take(NARROW.kind, 1)] == ["a"]
    assert [one.key for one in inbox.take(NARROW.kind, 9)] == ["b"]
    assert inbox.head is not None
    assert inbox.head.key == "c"
    assert [one.key for one in inbox.take(WIDE.kind, 9)] == ["c"]
    assert [one.key for one in inbox.take(NARROW.kind, 9)] == ["d"]
    assert inbox.head is None


def test_who_leaves_is_named_after_all_that_was_sent_before(ends: tuple[Connection, Inbox]) -> None:
    sender, inbox = ends
    sender.send(batch(NARROW, "a", "b", "c"))
    sender.send(Leave(("b", "x")))
    assert inbox.read(60) == ["b", "x"]
    assert inbox.drop("b")
    assert not inbox.drop("x")
    assert [one.key for one in inbox.take(NARROW.kind, 9)] == ["a", "c"]


def test_all_who_want_a_model_or_a_kind_are_dropped(ends: tuple[Connection, Inbox]) -> None:
    sender, inbox = ends
    other = config(dtype="float32")
    for message in (batch(NARROW, "a"), batch(other, "b"), batch(WIDE, "c"), batch(NARROW, "d")):
        sender.send(message)
    inbox.read()
    assert inbox.drop_kind(WIDE.kind) == ["c"]
    assert inbox.drop_model(NARROW.model_key) == ["a", "d"]
    assert [one.key for one in inbox.take(other.kind, 9)] == ["b"]


def test_what_else_was_said_is_taken_once(ends: tuple[Connection, Inbox]) -> None:
    sender, inbox = ends
    sender.send(Profile(3))
    sender.send(Learn((Peak("kind", 4, 100),)))
    inbox.read()
    assert (inbox.take_profile(), inbox.take_profile()) == (3, 0)
    assert (inbox.take_peaks(), inbox.take_peaks()) == ([Peak("kind", 4, 100)], [])


def test_a_closed_pipe_is_an_end_that_no_handler_of_faults_swallows(ends: tuple[Connection, Inbox]) -> None:
    sender, inbox = ends
    sender.close()
    with pytest.raises(HungUp):
        inbox.read()
    assert not issubclass(HungUp, Exception)
