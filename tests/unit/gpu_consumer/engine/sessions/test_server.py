"""The engine's loop in a thread of this process, for what a child process cannot be brought to from outside."""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TypeVar

import pytest
import torch

from gpu_consumer.engine.encoder import Encoder
from gpu_consumer.engine.inbox import HungUp, Inbox
from gpu_consumer.engine.link import hear
from gpu_consumer.engine.outbox import Outbox
from gpu_consumer.engine.protocol import (
    Batch,
    Broken,
    Drawn,
    Ended,
    Event,
    Item,
    Joined,
    Learn,
    Leave,
    Observed,
    Peak,
    Picture,
    Pulse,
    Ready,
    Refused,
)
from gpu_consumer.engine.residence import Residence
from gpu_consumer.engine.sessions import step
from gpu_consumer.engine.sessions.grants import Grants
from gpu_consumer.engine.sessions.server import Server
from gpu_consumer.engine.shm import pipe
from gpu_consumer.models.loading import Loaded
from schemas.config import GenerationConfig
from tests.sessions import Failing
from tests.tiny import models, tiny_config

__all__ = ["models"]

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

T = TypeVar("T")
PATIENCE = 60  # seconds; a deadline, never a measurement
ITEMS = tuple(Item(key, f"picture {key}", "", n) for n, key in enumerate("abcd"))


class Told(Outbox):
    """Keeps what was said, for those who ask in the engine's own thread."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self.said: list[Event] = []

    def say(self, events: Sequence[Event]) -> None:
        self.said += events
        super().say(events)


class Served:
    """A server, and the consumer's end of its pipe."""

    def __init__(self, models: Path) -> None:
        torch.set_num_threads(1)
        self._ours, theirs = pipe()
        self.device = Failing()
        self.residence = Residence(self.device, models)
        self.outbox = Told(theirs)
        encoder = Encoder(self.outbox.say, self.outbox.tell, seconds_max=300)
        self.server = Server(self.device, self.residence, Inbox(theirs), self.outbox, encoder)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self.events: list[Event] = []

    def start(self) -> None:
        self._thread.start()

    def _serve(self) -> None:
        with pytest.raises(HungUp):
            self.server.serve()

    def send(self, config: GenerationConfig, *items: Item) -> None:
        self._ours.send(Batch(config, items))

    def leave(self, *keys: str) -> None:
        self._ours.send(Leave(keys))

    def learn(self, *peaks: Peak) -> None:
        self._ours.send(Learn(peaks))

    def hear_until(self, *keys: str) -> None:
        """Until all of them have ended or were refused."""
        missing = set(keys)
        while missing:
            assert self._ours.poll(PATIENCE)
            for event in hear(self._ours):
                assert not isinstance(event, Ready | Broken)
                self.events.append(event)
                if isinstance(event, Ended):
                    missing.discard(event.key)
                elif isinstance(event, Refused):
                    missing.difference_update(event.keys)

    def close(self) -> None:
        self._ours.close()
        if self._thread.is_alive():
            self._thread.join(PATIENCE)


@pytest.fixture
def served(models: Path) -> Iterator[Served]:
    made = Served(models)
    yield made
    made.close()


def test_a_model_that_cannot_step_is_refused_with_the_cure_and_runs_whole(served: Served, models: Path) -> None:
    config = tiny_config(models)
    whole = tiny_config(models, batching="whole")
    loaded, _ = served.residence.take(config)
    loaded.family = replace(loaded.family, pipeline_class="PixArtAlphaPipeline")
    served.send(config, *ITEMS[:1])
    served.send(whole, *ITEMS[1:2])
    served.send(config, *ITEMS[2:3])
    served.start()
    served.hear_until("a", "b", "c")
    (refused,) = (event for event in served.events if isinstance(event, Refused))
    assert refused.keys == ("a", "c")
    assert "set batching: whole" in refused.message
    assert [event.key for event in served.events if isinstance(event, Ended)] == ["b"]


@pytest.mark.parametrize(
    ("family", "shape", "cure"),
    [
        ("animatediff", {"frames": 25}, "set frames: 24 or less"),
        ("sd3", {"width": 272}, "set width and height: 256 or less"),
    ],
)
@pytest.mark.parametrize("batching", ["step", "whole"])
def test_a_shape_that_its_model_cannot_make_is_refused_with_the_cure(
    served: Served, models: Path, family: str, shape: dict[str, int], cure: str, batching: str
) -> None:
    """The model's folder says how many places it knows, which no check of a configuration can see."""
    config = tiny_config(models, family, batching=batching, bucket=1, steps=1)
    served.send(tiny_config(models, family, batching=batching, bucket=1, steps=1, **shape), *ITEMS[:1])
    served.send(config, *ITEMS[1:2])
    served.start()
    served.hear_until("a", "b")
    (refused,) = (event for event in served.events if isinstance(event, Refused))
    assert refused.keys == ("a",)
    assert cure in refused.message
    assert [event.key for event in served.events if isinstance(event, Ended)] == ["b"]


def test_more_than_a_bucket_joins_as_slots_become_free(served: Served, models: Path) -> None:
    config = tiny_config(models)
    many = [replace(item, key=f"{item.key}{n}") for n in range(3) for item in ITEMS]
    served.send(config, *many)
    served.start()
    served.hear_until(*(item.key for item in many))
    joined = [event.keys for event in served.events if isinstance(event, Joined)]
    assert [len(keys) for keys in joined] == [4, 4, 4]
    here: set[str] = set()
    for event in served.events:
        if isinstance(event, Joined):
            here |= set(event.keys)
        elif isinstance(event, Drawn):
            here -= set(event.keys)
        assert len(here) <= config.bucket


def test_memory_that_runs_out_costs_nobody_a_picture_and_is_told(served: Served, models: Path) -> None:
    config = tiny_config(models)
    served.device.most = 2
    served.send(config, *ITEMS)
    served.start()
    served.hear_until("a", "b", "c", "d")
    ended = [event for event in served.events if isinstance(event, Ended)]
    assert {event.outcome.bucket for event in ended if isinstance(event.outcome, Picture)} == {2}
    assert len(ended) == 4
    assert 2 in {event.slots for event in served.events if isinstance(event, Pulse) and event.doing == "step"}
    served.send(config, *(replace(item, key=f"again {item.key}") for item in ITEMS))
    served.hear_until(*(f"again {item.key}" for item in ITEMS))
    observed = [event for event in served.events if isinstance(event, Observed)]
    assert {event.peak.bucket for event in observed} == {2}
    assert all(event.peak.bytes > 0 and event.gpu_seconds > 0 for event in observed)


@pytest.mark.parametrize("batching", ["step", "whole"])
def test_work_that_was_never_done_is_given_the_time_of_a_load(served: Served, models: Path, batching: str) -> None:
    """Of a real model's first decode nobody knows how long it takes: a kill would be a false one."""
    config = tiny_config(models, batching=batching)
    doing: list[str] = []
    run = served.device.run

    def observed(stage: str, keys: Sequence[str], work: Callable[[], T]) -> T:
        last = next(event for event in reversed(served.outbox.said) if isinstance(event, Pulse))
        doing.append(f"{last.doing} {stage}")
        return run(stage, keys, work)

    served.device.run = observed  # type: ignore[method-assign]
    served.start()
    served.send(config, *ITEMS)
    served.hear_until("a", "b", "c", "d")
    first, doing[:] = set(doing), []
    served.send(config, *(replace(item, key=f"again {item.key}", prompt=f"again {item.key}") for item in ITEMS))
    served.hear_until(*(f"again {item.key}" for item in ITEMS))
    assert {"load text", "load denoise", "load decode"} <= first
    assert set(doing) == {"step text", "step denoise", "step decode"}


def test_what_was_measured_is_said_of_its_own_kind_though_the_last_one_left(served: Served, models: Path) -> None:
    short, long, other = tiny_config(models), tiny_config(models, steps=50), tiny_config(models, width=96)
    server = served.server
    served.send(short, ITEMS[0])
    served.send(long, ITEMS[1])
    while not any(isinstance(event, Observed | Drawn) for event in served.outbox.said):
        server._attend(0.0)
        server._admit()
        server._step()
    while server._observations._noted == 0:  # it waits some steps for company
        server._step()
    served.leave("b")
    served.send(other, ITEMS[2])
    server._attend(0.0)
    assert server._rests
    server._admit()
    (observed,) = (event for event in served.outbox.said if isinstance(event, Observed))
    assert (observed.peak.kind, observed.config_hash) == (short.kind, short.config_hash)


def test_a_load_is_shared_by_those_it_was_made_for(served: Served, models: Path) -> None:
    served.send(tiny_config(models), *ITEMS)
    served.send(tiny_config(models), Item("e", "", "", 0))
    served.start()
    served.hear_until("a", "b", "c", "d", "e")
    loads = {event.key: event.share.timings.get("load") for event in served.events if isinstance(event, Ended)}
    assert loads.pop("e") is None
    (seconds,) = set(loads.values())
    assert seconds is not None
    assert seconds > 0


@pytest.mark.parametrize("batching", ["step", "whole"])
def test_who_is_told_to_leave_while_its_model_loads_takes_no_slot(
    served: Served, models: Path, batching: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny_config(models, batching=batching)
    take = served.residence.take

    def slow(wanted: GenerationConfig) -> tuple[Loaded, float]:
        if wanted == config:
            served.leave("a")
        return take(wanted)

    monkeypatch.setattr(served.residence, "take", slow)
    served.send(config, *ITEMS[:2])
    served.start()
    served.hear_until("a", "b")
    assert [event.keys for event in served.events if isinstance(event, Joined)] == [("b",)]
    (load,) = (event.share.timings["load"] for event in served.events if isinstance(event, Ended) if event.outcome)
    assert load > 0


def test_a_neighbour_that_takes_all_memory_is_waited_for_and_then_all_of_the_bucket_runs(
    served: Served, models: Path
) -> None:
    """Case GPU-13: those that find no room are held by the consumer, and a neighbour that goes leaves no trace."""
    config = tiny_config(models)
    served.start()
    served.send(config, ITEMS[0])
    served.hear_until("a")
    served.device.come()
    served.send(config, *ITEMS[1:3])
    served.hear_until("b", "c")
    (refused,) = (event for event in served.events if isinstance(event, Refused))
    assert refused.keys == ("b", "c")
    served.device.go()
    served.send(config, ITEMS[3])
    served.hear_until("d")
    ended = {event.key: event for event in served.events if isinstance(event, Ended)}
    assert isinstance(ended["d"].outcome, Picture)
    assert ended["d"].outcome.bucket == config.bucket


def test_an_idle_session_asks_again_what_is_free(served: Served, models: Path) -> None:
    config = tiny_config(models)
    served.residence.take(config)
    served.device.neighbour = served.device.free_bytes() - 3 * config.price.vram_bytes
    served.start()
    for key, bucket in (("a", 2), ("b", 4)):
        served.send(config, Item(key, "", "", 0))
        served.hear_until(key)
        (end,) = (event for event in served.events if isinstance(event, Ended) and event.key == key)
        assert isinstance(end.outcome, Picture)
        assert end.outcome.bucket == bucket
        served.device.go()


def test_what_others_measured_says_how_many_may_run(served: Served, models: Path) -> None:
    config = tiny_config(models)
    served.learn(Peak(config.kind, 4, served.device.free_bytes()), Peak(config.kind, 2, 1 << 20))
    served.send(config, ITEMS[0])
    served.start()
    served.hear_until("a")
    (end,) = (event for event in served.events if isinstance(event, Ended))
    assert isinstance(end.outcome, Picture)
    assert end.outcome.bucket == 2


def test_memory_that_comes_and_goes_keeps_nobody_from_joining(
    served: Served, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that was opened is to run before it is opened anew, or none would ever run."""
    config = tiny_config(models)
    monkeypatch.setattr(Grants, "fitting", lambda *_: 1)
    served.start()
    for item in ITEMS[:2]:
        served.send(config, item)
        served.hear_until(item.key)


def test_a_kind_that_finds_no_memory_even_for_its_buffers_is_refused(
    served: Served, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> object:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 MiB")

    monkeypatch.setattr(step, "Stepwise", full)
    served.send(tiny_config(models), *ITEMS[:2])
    served.start()
    served.hear_until("a", "b")
    (refused,) = (event for event in served.events if isinstance(event, Refused))
    assert refused.keys == ("a", "b")
    assert "out of memory" in refused.message
