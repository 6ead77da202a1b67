import asyncio
import pickle
import struct
import subprocess
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from gpu_consumer.engine.link import Link
from gpu_consumer.engine.protocol import Ended, Joined, Pulse, Refused, Share
from gpu_consumer.engine.settings import EngineSettings
from gpu_consumer.engine.shm import pipe, send_events

PATIENCE = 60  # seconds; a deadline, never a measurement


class Linked:
    """A link to a process that says nothing by itself, and that process's end of it."""

    def __init__(self, **settings: float) -> None:
        self.process = subprocess.Popen(["/bin/sleep", "600"])
        ours, self.theirs = pipe()
        made = EngineSettings(models_directory=Path(), stop_seconds_max=0, **settings)
        self.link = Link(self.process, ours, made)

    async def death(self) -> str:
        """After all that was said before it."""
        async with asyncio.timeout(PATIENCE):
            while await self.link.wait():
                pass
        assert self.link.death is not None
        return self.link.death

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.theirs.close()
        self.link.close()
        self.link.join()


@pytest.fixture
def linked() -> Iterator[Linked]:
    made = Linked(watchdog_seconds_min=0.2, start_seconds_max=PATIENCE)
    yield made
    made.end()


def write(connection: Connection, data: bytes) -> None:
    """As a Connection frames a message of that length."""
    with open(connection.fileno(), "wb", closefd=False) as file:
        file.write(data)


async def test_one_that_gives_no_sign_of_life_is_killed(linked: Linked) -> None:
    send_events(linked.theirs, [Joined(("a",)), Pulse("step")])
    assert "no sign of life in 0.2 s" in await linked.death()
    assert linked.process.wait(PATIENCE) < 0
    assert linked.link.joined == {"a"}


async def test_one_that_stops_in_the_middle_of_a_message_is_killed(linked: Linked) -> None:
    write(linked.theirs, struct.pack("!i", 1000) + b"the beginning")
    assert "in the middle of a message" in await linked.death()
    assert linked.process.wait(PATIENCE) < 0


async def test_what_cannot_be_read_ends_the_engine_and_not_its_reader_alone(linked: Linked) -> None:
    unreadable = pickle.dumps(Pulse("nothing")).replace(b"Pulse", b"Pulze")
    write(linked.theirs, struct.pack("!i", len(unreadable)) + unreadable)
    assert "cannot be read (AttributeError" in await linked.death()
    assert linked.process.wait(PATIENCE) < 0


async def test_who_has_joined_and_not_ended_is_charged(linked: Linked) -> None:
    send_events(linked.theirs, [Joined(("a", "b", "c")), Refused(("c", "d"), "no"), Ended("a", None, Share())])
    linked.theirs.close()
    assert "closed its pipe" in await linked.death()
    assert linked.link.joined == {"b"}


def test_patience_is_ten_times_what_it_does() -> None:
    linked = Linked(watchdog_seconds_min=30.0, start_seconds_max=900.0)
    try:
        pulses = {
            30.0: Pulse("nothing"),
            900.0: Pulse("load", step_seconds=1.0),
            50.0: Pulse("step", step_seconds=5.0, silent_seconds=4.0),
            400.0: Pulse("step", step_seconds=5.0, silent_seconds=40.0),  # the decoder of a video
        }
        assert {linked.link._patience(pulse): pulse for pulse in pulses.values()} == pulses
    finally:
        linked.end()
