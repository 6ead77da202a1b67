"""A partition index of a virtual pool: what nobody has fetched yet, and how far each lane is committed."""

from collections import deque
from dataclasses import dataclass, field

from infra.planner.request import Request
from schemas.request import LANES, Lane


@dataclass(slots=True)
class Log:
    """Offsets are committed as the product's ledger does: up to the first that is not done."""

    waiting: deque[Request] = field(default_factory=deque)
    ends: dict[Lane, int] = field(default_factory=lambda: dict.fromkeys(LANES, 0))
    marks: dict[Lane, int] = field(default_factory=lambda: dict.fromkeys(LANES, 0))
    done: dict[Lane, set[int]] = field(default_factory=lambda: {lane: set() for lane in LANES})

    def append(self, lane: Lane) -> int:
        """The offset of what is appended."""
        offset = self.ends[lane]
        self.ends[lane] += 1
        return offset

    def finish(self, lane: Lane, offset: int) -> int:
        """By how much the committed offset moves."""
        done, began = self.done[lane], self.marks[lane]
        done.add(offset)
        while (mark := self.marks[lane]) in done:
            done.remove(mark)
            self.marks[lane] += 1
        return self.marks[lane] - began
