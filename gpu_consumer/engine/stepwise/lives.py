"""Those who are here: in a slot, or waiting for their picture; what each of them costs, and how it ends."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from gpu_consumer.engine.faults import Trouble
from gpu_consumer.engine.protocol import Flaw
from gpu_consumer.engine.stepwise.request import Ended, Failed, Made, Request
from gpu_consumer.engine.stepwise.samplers import Sampler
from gpu_consumer.engine.stepwise.slots import End, Slots


@dataclass(slots=True, eq=False)
class Life:
    """A request that is here. Without a sampler it waits for its text, drawn for its picture."""

    request: Request
    slot: int
    sampler: Sampler | None = None
    drawn_at_step: int | None = None

    @property
    def key(self) -> str:
        return self.request.key


class Lives:
    """In the order of joining. `check` asserts that nobody is lost."""

    def __init__(self, bucket: int) -> None:
        self._bucket = bucket
        self._slots = Slots(bucket)
        self._lives: dict[str, Life] = {}
        self._ended: list[Ended] = []

    def __iter__(self) -> Iterator[Life]:
        return iter(list(self._lives.values()))

    def __len__(self) -> int:
        return len(self._lives)

    @property
    def free_slots(self) -> int:
        return self._slots.free

    @property
    def idle(self) -> bool:
        """Nobody is here, and nobody's end is untold."""
        return self._slots.empty and not self._ended

    def join(self, request: Request) -> None:
        self._lives[request.key] = Life(request, self._slots.join(request.key))
        request.bill.ran_in(self._bucket)

    def get(self, key: str) -> Life | None:
        return self._lives.get(key)

    def deaf(self) -> list[Life]:
        return [life for life in self._lives.values() if life.sampler is None]

    def running(self) -> list[Life]:
        return [life for life in self._lives.values() if life.sampler is not None and life.drawn_at_step is None]

    def drawn(self) -> list[Life]:
        """Who waits for a picture, the longest waiting first."""
        drawn = [life for life in self._lives.values() if life.drawn_at_step is not None]
        return sorted(drawn, key=lambda life: life.drawn_at_step or 0)

    def draw(self, life: Life, step: int) -> None:
        """The last step of `life` is made: its slot is free."""
        life.drawn_at_step = step
        self._slots.draw(life.key)

    def leave(self, life: Life) -> None:
        self._remove(life, "left")

    def fail(self, life: Life, found: Trouble) -> None:
        self._remove(life, "failed")
        self._ended.append(Failed(life.request, Flaw(life.key, found.code, found.message)))

    def make(self, life: Life, pixels: Any, latents: torch.Tensor) -> None:
        self._remove(life, "made")
        self._ended.append(Made(life.request, pixels, latents))

    def take_ended(self) -> list[Ended]:
        ended, self._ended = self._ended, []
        return ended

    def check(self) -> None:
        self._slots.check()

    def _remove(self, life: Life, how: End) -> None:
        del self._lives[life.key]
        self._slots.end(life.key, how)


@contextmanager
def charged(lives: Sequence[Life], stage: str) -> Iterator[None]:
    """Each pays the same part of the seconds of the block, a failed block's too."""
    started = time.monotonic()
    try:
        yield
    finally:
        seconds = time.monotonic() - started
        for life in lives:
            life.request.bill.charge(stage, seconds / len(lives))
