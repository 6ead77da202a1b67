"""Sessions over tiny models in this process, for tests, on a device that fails where it is told to."""

import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TypeVar

import torch

from gpu_consumer.engine.device import CpuDevice
from gpu_consumer.engine.encoder import encoded
from gpu_consumer.engine.protocol import Drawn, Ended, Item, Picture, Refused
from gpu_consumer.engine.residence import Residence
from gpu_consumer.engine.sessions.base import Decoded, Outcome, Session, Wanted
from gpu_consumer.engine.sessions.grants import Grants
from gpu_consumer.engine.sessions.step import StepSession
from gpu_consumer.engine.sessions.whole import WholeSession
from schemas.config import GenerationConfig

T = TypeVar("T")


class Crowded(CpuDevice):
    """With a neighbour, who takes memory that this process does not see taken, as on a card."""

    def __init__(self, memory_bytes: int = 1 << 30) -> None:
        super().__init__(memory_bytes)
        self.neighbour = 0

    def come(self) -> None:
        """Nothing is left."""
        self.neighbour = super().free_bytes()

    def go(self) -> None:
        self.neighbour = 0

    def free_bytes(self) -> int:
        return max(0, super().free_bytes() - self.neighbour)


class Failing(Crowded):
    """Out of memory in `stage` for more than `most` items, and for each of `poison` however few they are."""

    def __init__(self, memory_bytes: int = 1 << 30) -> None:
        super().__init__(memory_bytes)
        self.stage = "denoise"
        self.most = 1000
        self.poison: Collection[str] = ()
        self.seconds = 0.0  # that go by until it fails

    def run(self, stage: str, keys: Sequence[str], work: Callable[[], T]) -> T:
        if stage == self.stage and (len(keys) > self.most or set(keys) & set(self.poison)):
            time.sleep(self.seconds)
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return super().run(stage, keys, work)


class Place:
    """What sessions are opened in."""

    def __init__(self, models: Path, device: CpuDevice | None = None) -> None:
        self.device = device or CpuDevice(1 << 30)
        self.residence = Residence(self.device, models)
        self.grants = Grants(self.device, self.residence)

    def open(self, config: GenerationConfig, on_step: Callable[[], None] = lambda: None) -> Session:
        loaded, _ = self.residence.take(config)
        kind = WholeSession if config.batching == "whole" else StepSession
        return kind(self.device, self.residence, loaded, self.grants, config, on_step)


def wanted(config: GenerationConfig, *items: Item) -> list[Wanted]:
    return [Wanted(item, config) for item in items]


def finish(session: Session, waiting: Sequence[Wanted] = ()) -> list[Outcome]:
    """Step until nothing is here, and nothing of `waiting`, which join as they may."""
    queue = list(waiting)
    outcomes: list[Outcome] = []
    while queue or not session.idle:
        joining, queue = queue[: session.free], queue[session.free :]
        if joining:
            session.join(joining)
        outcomes += session.step()
    return outcomes


def ends(outcomes: Sequence[Outcome]) -> dict[str, Ended]:
    """As the consumer hears of them: each once."""
    ended = [
        encoded(outcome) if isinstance(outcome, Decoded) else outcome
        for outcome in outcomes
        if not isinstance(outcome, Drawn | Refused)
    ]
    assert len({one.key for one in ended}) == len(ended), "something ended twice"
    return {one.key: one for one in ended}


def drawn(outcomes: Sequence[Outcome]) -> list[str]:
    return [key for outcome in outcomes if isinstance(outcome, Drawn) for key in outcome.keys]


def pictures(outcomes: Sequence[Outcome]) -> dict[str, Picture]:
    return {key: one.outcome for key, one in ends(outcomes).items() if isinstance(one.outcome, Picture)}
