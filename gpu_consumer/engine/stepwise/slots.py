"""Who is where: pure bookkeeping of slots. Nobody is lost and nobody is counted twice."""

from collections import Counter
from typing import Literal

End = Literal["made", "failed", "left"]


class Slots:
    """`count` slots, and behind them those who are denoised and wait for their picture, which hold no slot."""

    def __init__(self, count: int) -> None:
        assert count >= 1
        self._held: list[str | None] = [None] * count
        self._slot_of: dict[str, int] = {}
        self._drawn: dict[str, None] = {}
        self._joined = 0
        self._ended: Counter[End] = Counter()

    @property
    def free(self) -> int:
        return len(self._held) - len(self._slot_of)

    @property
    def empty(self) -> bool:
        """Nobody is in a slot, and nobody waits for a picture."""
        return not self._slot_of and not self._drawn

    @property
    def drawn(self) -> int:
        """How many wait for their picture."""
        return len(self._drawn)

    def __contains__(self, key: str) -> bool:
        return key in self._slot_of or key in self._drawn

    def join(self, key: str) -> int:
        """The lowest free slot, now held by `key`."""
        assert key not in self, f"{key} is here already"
        assert self.free, "no slot is free: ask free_slots first"
        slot = self._held.index(None)
        self._held[slot] = key
        self._slot_of[key] = slot
        self._joined += 1
        return slot

    def draw(self, key: str) -> None:
        """`key` has made its last step: its slot is free, its picture is not decoded yet."""
        self._held[self._slot_of.pop(key)] = None
        self._drawn[key] = None

    def end(self, key: str, how: End) -> None:
        """`key` is gone, wherever it was."""
        if key in self._drawn:
            del self._drawn[key]
        else:
            self._held[self._slot_of.pop(key)] = None
        self._ended[how] += 1

    def ended(self, how: End) -> int:
        return self._ended[how]

    def check(self) -> None:
        """Joined = in slots + drawn + ended; each in one place."""
        held = {key: slot for slot, key in enumerate(self._held) if key is not None}
        assert held == self._slot_of, "a slot and its holder disagree"
        assert not held.keys() & self._drawn.keys(), "a request is in two places"
        assert self._joined == len(held) + len(self._drawn) + self._ended.total(), "a request is lost"
