import subprocess
import sys
import threading
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from gpu_consumer.engine.encoder import WAITING_MAX, Encoder
from gpu_consumer.engine.inbox import HungUp
from gpu_consumer.engine.protocol import Broken, Ended, Event, Flaw, Item, Picture, Share
from gpu_consumer.engine.sessions.base import Decoded, Wanted
from tests.unit.gpu_consumer.engine.test_instant import config


def decoded(key: str, pixels: object) -> Decoded:
    return Decoded(Wanted(Item(key, "", "", 0), config()), pixels, 2, ("cut",), Share({"text": 1.0}, 1.0))


def an_encoder(say: Callable[[Sequence[Event]], None], seconds_max: float = 300) -> Encoder:
    def tell(broken: Broken) -> None:
        print(broken.kind, broken.message, flush=True)

    return Encoder(say, tell, seconds_max=seconds_max)


def test_each_ends_with_its_bytes_and_what_cannot_be_encoded_ends_alone() -> None:
    said: list[Event] = []

    def say(events: Sequence[Event]) -> None:
        said.extend(events)

    encoder = an_encoder(say)
    good = np.arange(8 * 16 * 3, dtype=np.uint8).reshape(8, 16, 3)
    keys = [str(n) for n in range(3 * WAITING_MAX)]
    for key in keys:
        encoder.put(decoded(key, good if key != "3" else np.zeros((2, 2, 7), dtype=np.uint8)))
    encoder.close()
    ends = {event.key: event for event in said if isinstance(event, Ended)}
    assert list(ends) == keys
    flaw = ends.pop("3").outcome
    assert isinstance(flaw, Flaw)
    assert flaw.code == "generation_error"
    for one in ends.values():
        assert isinstance(one.outcome, Picture)
        assert (one.outcome.width, one.outcome.height, one.outcome.bucket) == (16, 8, 2)
        assert one.outcome.warnings == ("cut",)
        assert one.share.timings["encode"] > 0
        assert one.share.timings["text"] == 1.0


def test_whoever_waits_for_the_encoder_gives_signs_of_life() -> None:
    busy = threading.Event()
    looks = 0

    def look() -> None:
        nonlocal looks
        looks += 1
        if looks % 3 == 0:
            busy.set()

    def say(_: Sequence[Event]) -> None:
        busy.wait()

    encoder = an_encoder(say)
    good = np.zeros((8, 16, 3), dtype=np.uint8)
    for n in range(WAITING_MAX + 2):
        encoder.put(decoded(str(n), good), look)
    assert looks >= 3, "until it was let go"
    busy.clear()
    encoder.put(decoded("last", good), look)
    encoder.close(look)
    assert looks >= 6


def test_an_encoder_that_was_never_needed_gives_none() -> None:
    """The first word of an engine that does not start is why, and no sign of life."""
    looks: list[None] = []
    an_encoder(lambda _: None).close(lambda: looks.append(None))
    assert not looks


def test_an_encoder_that_nobody_hears_ends_and_whoever_steps_finds_out() -> None:
    """It ends no process: in a test that would be the test's own, and with status 0."""

    def hung_up(*_: object) -> None:
        raise HungUp

    encoder = an_encoder(hung_up)
    encoder.put(decoded("unheard", None))
    encoder._thread.join(60)
    assert not encoder._thread.is_alive()
    for n in range(WAITING_MAX):
        encoder.put(decoded(str(n), None), hung_up)
    with pytest.raises(HungUp):
        encoder.put(decoded("one too many", None), hung_up)


BROKEN = """
import threading
from tests.unit.gpu_consumer.engine.test_encoder import an_encoder, decoded

def say(events):
    raise RuntimeError("this pipe is no pipe")

encoder = an_encoder(say)
encoder.put(decoded("a", None))
threading.Event().wait()
"""


HANGING = """
import threading
from gpu_consumer.engine import encoder
from tests.unit.gpu_consumer.engine.test_encoder import an_encoder, decoded

forever = threading.Event()
encoded = encoder.encoded

def hang(one):
    if one.wanted.key == "b":
        forever.wait()
    return encoded(one)

def say(events):
    forever.wait(1)  # that nobody listens is nothing that hangs

encoder.encoded = hang
made = an_encoder(say, seconds_max=0.5)
made.put(decoded("a", None))
made.put(decoded("b", None))
made.close()
"""


def ended(script: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", script],
        check=False,
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_an_encoder_that_cannot_say_what_it_made_ends_the_engine_and_says_why() -> None:
    engine = ended(BROKEN)
    assert engine.returncode == 70
    assert "this pipe is no pipe" in engine.stderr


def test_an_encoder_that_hangs_ends_the_engine_and_says_why() -> None:
    """Also while it is closed, and all the time signs of life are given."""
    engine = ended(HANGING)
    assert engine.returncode == 70
    assert engine.stdout == "crash to encode b took longer than 0.5 s\n"
