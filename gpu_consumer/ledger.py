"""What is finished of one lane of one partition index, in any order, and what runs. Pure.

    offsets   0 1 2 3 4 5 6 7 8          0 to 4 are finished: the watermark is 5, the group's offset
    finished  x x x x x . x x .          6 and 7 are finished out of order: bits 1 and 2 of the bitmap

The whole ledger is one record of a compacted topic, keyed by the lane, written in the transaction of what it finishes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from schemas.codec import canonical
from schemas.reading import read_held_event


@dataclass(frozen=True, slots=True)
class Mark:
    """A job that has a slot: who runs it, since when, until when at most, and how often that killed somebody."""

    incarnation: str
    since_ms: int
    until_ms: int
    engine_deaths: int = 0
    consumer_deaths: int = 0

    def runs_elsewhere(self, incarnation: str, now_ms: int) -> bool:
        """True while another process may still be at it. A holder frozen past its expected end is not waited for."""
        return self.left_by_another(incarnation) and now_ms < self.until_ms

    def left_by_another(self, incarnation: str) -> bool:
        """Where it runs no more, that process died or lost the lease."""
        return self.incarnation not in ("", incarnation)

    def taken_over(self, incarnation: str, since_ms: int, until_ms: int) -> "Mark":
        """The mark of the next run."""
        return replace(
            self,
            incarnation=incarnation,
            since_ms=since_ms,
            until_ms=until_ms,
            consumer_deaths=self.consumer_deaths + self.left_by_another(incarnation),
        )

    def engine_died(self) -> "Mark":
        return replace(self, incarnation="", until_ms=self.since_ms, engine_deaths=self.engine_deaths + 1)

    def handed_back(self) -> "Mark | None":
        """What stays when the run ends without an end of the job: the deaths, if there were any."""
        if not self.engine_deaths and not self.consumer_deaths:
            return None
        return replace(self, incarnation="", until_ms=self.since_ms)


@dataclass(slots=True)
class Ledger:
    """Mutable; an owner changes a copy and adopts it once the transaction that carries it is committed."""

    watermark: int = 0
    bits: int = 0
    marks: dict[int, Mark] = field(default_factory=dict)

    def done(self, offset: int) -> bool:
        return offset < self.watermark or bool(self.bits >> (offset - self.watermark) & 1)

    def finish(self, offset: int) -> None:
        """Once an offset; a second time is our own bug."""
        assert not self.done(offset), f"offset {offset} was finished before"
        self.bits |= 1 << (offset - self.watermark)
        self.marks.pop(offset, None)
        self._advance()

    def finish_range(self, start: int, stop: int) -> None:
        """Finish the offsets of [start, stop) that are not finished yet: a hole where no record will ever be."""
        start = max(start, self.watermark)
        if stop <= start:
            return
        if start == self.watermark:  # may be a thousand million records that retention has removed: no bit for each
            self.bits >>= stop - start
            self.watermark = stop
        else:
            self.bits |= ((1 << (stop - start)) - 1) << (start - self.watermark)
        for offset in [each for each in self.marks if start <= each < stop]:
            del self.marks[offset]
        self._advance()

    def _advance(self) -> None:
        ones = (~self.bits & (self.bits + 1)).bit_length() - 1  # how many bits from the lowest on are set
        self.bits >>= ones
        self.watermark += ones

    def mark(self, offset: int, mark: Mark) -> None:
        assert not self.done(offset), f"offset {offset} is finished and cannot run"
        self.marks[offset] = mark

    def unmark(self, offset: int) -> None:
        """Hand a job back; its deaths stay counted."""
        mark = self.marks.pop(offset, None)
        if mark is not None and (left := mark.handed_back()) is not None:
            self.marks[offset] = left

    def hand_back(self, incarnation: str, keeps: Callable[[int], bool]) -> None:
        """Unmark what this process has marked, but for the offsets that it `keeps`."""
        for offset in [each for each, mark in self.marks.items() if mark.incarnation == incarnation]:
            if not keeps(offset):
                self.unmark(offset)

    def room(self, offset: int, run_ahead_max: int) -> bool:
        """May this offset be worked on? A bound on the bitmap, and on what one stuck record lets pass."""
        return offset < self.watermark + run_ahead_max

    def copy(self) -> "Ledger":
        return Ledger(self.watermark, self.bits, dict(self.marks))

    def encode(self) -> bytes:
        marks = {
            str(offset): [mark.incarnation, mark.since_ms, mark.until_ms, mark.engine_deaths, mark.consumer_deaths]
            for offset, mark in self.marks.items()
        }
        return canonical(
            {"schema_version": 1, "watermark": self.watermark, "finished": f"{self.bits:x}", "marks": marks}
        )

    @classmethod
    def decode(cls, data: bytes) -> "Ledger":
        """Raises UnknownVersion where a newer consumer wrote it, Undecodable on garbage: never start from nothing."""
        record = read_held_event(_Record, data, "ledger")
        marks = {offset: Mark(*values) for offset, values in record.marks.items()}
        return cls(record.watermark, int(record.finished, 16), marks)


_Count = Annotated[int, Field(ge=0, lt=1 << 63)]  # as far as Kafka's own numbers go


class _Record(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    schema_version: Literal[1] = 1
    watermark: _Count
    finished: Annotated[str, Field(pattern=r"^[0-9a-f]+$")]
    marks: Mapping[_Count, tuple[str, _Count, _Count, _Count, _Count]]
