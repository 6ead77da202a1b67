from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest

from gpu_consumer.engine.device import CpuDevice
from gpu_consumer.engine.heart import PULSE_SECONDS, Heart
from gpu_consumer.engine.protocol import Event, Pulse
from gpu_consumer.engine.residence import Residence
from gpu_consumer.engine.sessions.base import Session
from tests.unit.gpu_consumer.engine.test_instant import config


class Running:
    """As much of a session as a heart looks at."""

    kind = "a kind"
    config = config()
    slots = 4
    fill = 2
    idle = False
    peak_bytes = 0

    def __init__(self) -> None:
        self.made = {"a": 3}


class Listener:
    def __init__(self) -> None:
        self.pulses: list[Pulse] = []
        self.now = 0.0
        device = CpuDevice(1 << 20)
        self.heart = Heart(self._hear, device, Residence(device, Path()), lambda: self.now)
        self.session = Running()

    def _hear(self, events: Sequence[Event]) -> None:
        self.pulses += [event for event in events if isinstance(event, Pulse)]

    def beat(self, *, loading: bool = False) -> None:
        self.heart.beat(cast(Session, self.session), loading=loading)


@pytest.fixture
def listener() -> Listener:
    made = Listener()
    made.heart.start()
    return made


def test_no_sign_of_life_before_it_is_ready() -> None:
    listener = Listener()
    listener.beat()
    assert listener.pulses == []


def test_four_times_a_second_and_at_once_where_something_else_is_done(listener: Listener) -> None:
    listener.beat()
    listener.beat()
    assert [pulse.doing for pulse in listener.pulses] == ["step"]
    listener.now += PULSE_SECONDS
    listener.beat()
    listener.session.slots = 2
    listener.beat()
    listener.beat(loading=True)
    listener.session.idle = True
    listener.beat()
    assert [pulse.made for pulse in listener.pulses[2:]] == [{"a": 3}, {"a": 3}, {}]
    assert [(pulse.doing, pulse.kind, pulse.slots, pulse.fill) for pulse in listener.pulses[1:]] == [
        ("step", "a kind", 4, 2),
        ("step", "a kind", 2, 2),
        ("load", "a kind", 2, 2),
        ("nothing", None, 0, 0),
    ]


def test_the_median_of_the_last_steps_and_their_number(listener: Listener) -> None:
    listener.beat()
    for seconds in (1.0, 1.0, 9.0, 2.0, 1.0):
        listener.heart.stepped(seconds)
    listener.now += 1
    listener.beat()
    assert [(pulse.steps, pulse.step_seconds) for pulse in listener.pulses] == [(0, None), (5, 1.0)]


def test_what_a_full_batch_is_expected_to_take(listener: Listener) -> None:
    listener.beat()
    assert listener.pulses[0].memory.predicted == 4 * config().price.vram_bytes
    assert listener.pulses[0].memory.free == 1 << 20


def test_what_was_never_done_may_take_as_long_as_a_load_and_then_as_long_as_the_last_time(listener: Listener) -> None:
    heart, session = listener.heart, cast(Session, listener.session)
    for stage, seconds in (("denoise", 1.0), ("decode", 40.0)):
        heart.begin(session, stage)
        listener.now += seconds
        heart.stepped(1.0)
    heart.rest()
    heart.beat(session)
    listener.now += 0.01
    heart.begin(session, "denoise")
    listener.now += 0.01
    heart.begin(session, "decode")
    listener.session.slots = 2  # other shapes, other kernels
    heart.begin(session, "decode")
    assert [(pulse.doing, pulse.slots, pulse.silent_seconds) for pulse in listener.pulses] == [
        ("load", 4, 0.0),
        ("load", 4, 0.0),
        ("step", 4, 0.0),
        ("step", 4, 40.0),  # at once
        ("load", 2, 0.0),
    ]


def test_how_long_it_took_to_fail_says_nothing(listener: Listener) -> None:
    session = cast(Session, listener.session)
    for _ in range(2):
        listener.heart.begin(session, "decode")
        listener.now += 0.001
        listener.heart.failed()
        listener.now += PULSE_SECONDS
    assert [pulse.doing for pulse in listener.pulses] == ["load", "load"]
