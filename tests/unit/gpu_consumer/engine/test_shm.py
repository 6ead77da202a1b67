import os
import threading
from pathlib import Path

import pytest

from gpu_consumer.engine.protocol import Finished, Picture
from gpu_consumer.engine.shm import pipe, receive_pictures, send_finished


def finished(*data: bytes) -> Finished:
    pictures = tuple(Picture(str(n), one, "image/png", "png", 1, 1, 4) for n, one in enumerate(data))
    return Finished(1, pictures, (), {}, 0.0, 0, 4)


def exchanged(sent: Finished) -> Finished:
    ours, theirs = pipe()
    with ours, theirs:
        sender = threading.Thread(target=send_finished, args=(theirs, sent, os.getpid()))
        sender.start()
        message, sizes = ours.recv()
        assert all(picture.data == b"" for picture in message.pictures)
        received = receive_pictures(ours, message, sizes)
        sender.join()
    return received


@pytest.mark.parametrize("data", [(), (b"one",), (b"a" * (1 << 20), b"bc", b"d" * 4097)])
def test_pictures_arrive_as_they_were_sent(data: tuple[bytes, ...]) -> None:
    assert exchanged(finished(*data)) == finished(*data)


def test_no_descriptor_stays_open() -> None:
    exchanged(finished(b"x"))
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(10):
        exchanged(finished(b"x" * 100_000))
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_sender_that_dies_between_message_and_pixels_is_an_end_of_file() -> None:
    ours, theirs = pipe()
    with ours:
        theirs.send((finished(b""), [3]))
        theirs.close()
        message, sizes = ours.recv()
        with pytest.raises((EOFError, OSError, RuntimeError)):
            receive_pictures(ours, message, sizes)
