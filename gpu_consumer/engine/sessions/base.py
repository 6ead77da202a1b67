"""A session: how items of one kind run together, be it step by step or whole."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from gpu_consumer.engine.protocol import Drawn, Ended, Item, Refused, Share
from schemas.config import GenerationConfig


@dataclass(frozen=True, slots=True)
class Wanted:
    """An item, and what it is to be made with."""

    item: Item
    config: GenerationConfig

    @property
    def key(self) -> str:
        return self.item.key

    @property
    def kind(self) -> str:
        return self.config.kind


@dataclass(frozen=True, slots=True)
class Decoded:
    """The device is done with it: uint8 pixels, ([frames,] height, width, 3), made in a batch padded to `bucket`."""

    wanted: Wanted
    pixels: Any
    bucket: int
    warnings: tuple[str, ...]
    share: Share


Outcome: TypeAlias = Drawn | Ended | Refused | Decoded


def crowded_out(key: str, message: str) -> Refused:
    """A neighbour on the card took its memory, which is nobody's fault and passes. `message`: how it ran out."""
    return Refused((key,), f"others on the device took the memory meanwhile: {message}")


class Session(Protocol):
    """For one thread. Whatever joined ends once: as an Ended, as Decoded, which is one when it is encoded, or Refused,
    where a neighbour on the card took its memory."""

    @property
    def kind(self) -> str: ...

    @property
    def config(self) -> GenerationConfig:
        """One of those of this kind."""
        ...

    @property
    def slots(self) -> int:
        """How many may run at once."""
        ...

    @property
    def free(self) -> int:
        """How many may join now."""
        ...

    @property
    def fill(self) -> int:
        """How many have a slot."""
        ...

    @property
    def made(self) -> Mapping[str, int]:
        """Steps that were made of each that has a slot, by its key."""
        ...

    @property
    def idle(self) -> bool:
        """Nothing is here."""
        ...

    @property
    def spent(self) -> bool:
        """Nothing more may join; another of the same kind is to follow."""
        ...

    @property
    def peak_bytes(self) -> int:
        """The most memory that a batch of `peak_slots` took here beside the weights, 0 before the first."""
        ...

    @property
    def peak_slots(self) -> int: ...

    def join(self, wanted: Sequence[Wanted]) -> None:
        """At most `free` of them."""
        ...

    def expect(self, wanted: Sequence[Wanted]) -> None:
        """These will join soon."""
        ...

    def leave(self, key: str) -> Ended | None:
        """Gone before the next step; None if it is not here."""
        ...

    def step(self) -> list[Outcome]:
        """Do the next piece of work; blocks for it. Not while idle. Raises faults.Sticky."""
        ...
