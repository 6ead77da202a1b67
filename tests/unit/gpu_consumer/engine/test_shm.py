import gc
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from gpu_consumer.engine.protocol import Drawn, Ended, Event, Flaw, Picture, Profiled, Share
from gpu_consumer.engine.shm import pipe, receive_bodies, send_events


def ended(*data: bytes) -> list[Event]:
    return [Ended(str(n), Picture(str(n), one, "image/png", "png", 1, 1, 4), Share()) for n, one in enumerate(data)]


def exchanged(sent: Sequence[Event]) -> list[Event]:
    ours, theirs = pipe()
    with ours, theirs:
        sender = threading.Thread(target=send_events, args=(theirs, sent))
        sender.start()
        events, sizes = ours.recv()
        assert not any(isinstance(event, Profiled) and event.trace for event in events)
        received = receive_bodies(ours, events, sizes)
        sender.join()
    return received


@pytest.mark.parametrize(
    "sent",
    [
        [],
        [Drawn(("a",))],
        ended(b"one"),
        ended(b"", b""),
        ended(b"a" * (1 << 20), b"bc", b"d" * 4097),
        [Drawn(("0",)), *ended(b"0"), Ended("x", None, Share()), Profiled(b"trace", 2), *ended(b"1")],
        [Ended("x", Flaw("x", "non_finite", "NaN"), Share())],
    ],
)
def test_events_arrive_as_they_were_sent(sent: list[Event]) -> None:
    assert exchanged(sent) == sent


def test_many_messages_arrive_in_order() -> None:
    ours, theirs = pipe()
    with ours, theirs:
        for n in range(3):
            send_events(theirs, ended(bytes([n]) * 1000))
        for n in range(3):
            (event,) = receive_bodies(ours, *ours.recv())
            assert isinstance(event, Ended)
            assert isinstance(event.outcome, Picture)
            assert event.outcome.data == bytes([n]) * 1000


def test_no_descriptor_stays_open() -> None:
    exchanged(ended(b"x"))
    gc.collect()  # what others have left is closed now, and not meanwhile
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(10):
        exchanged(ended(b"x" * 100_000))
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_sender_that_dies_between_message_and_pixels_is_an_end_of_file() -> None:
    ours, theirs = pipe()
    with ours:
        theirs.send((ended(b""), [3]))
        theirs.close()
        events, sizes = ours.recv()
        with pytest.raises((EOFError, OSError)):
            receive_bodies(ours, events, sizes)
