"""Has a last stable offset come to a stand? A transaction that stays open hides all that is written after it. Pure."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from aiokafka import TopicPartition


@dataclass(frozen=True, slots=True)
class Unstable:
    """Of the worst partition of a topic: records that nobody may read yet, and for how long that has been so."""

    records: int
    seconds: float


@dataclass(slots=True)
class _Seen:
    stable: int
    since: float
    behind: int


class StableWatch:
    """Remembers since when each partition's last stable offset has stood below its end. `now` is of a steady clock."""

    def __init__(self) -> None:
        self._seen: dict[TopicPartition, _Seen] = {}

    def look(self, stable: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], now: float) -> None:
        """What was found of all partitions that are ours; the others are forgotten. A partition whose end is not
        known counts as whole. Ask for `ends` first, or records that come between the two questions look hidden."""
        before, self._seen = self._seen, {}
        for at, offset in stable.items():
            seen = before.get(at)
            behind = max(0, ends.get(at, offset) - offset)
            stands = seen is not None and seen.stable == offset and behind > 0 and seen.behind > 0
            self._seen[at] = _Seen(offset, seen.since if seen is not None and stands else now, behind)

    def worst(self, topics: Collection[str], now: float) -> Iterator[tuple[str, Unstable]]:
        """Of each of `topics`, also of one that is whole, or of which we have nothing."""
        for topic in topics:
            found = [seen for at, seen in self._seen.items() if at.topic == topic and seen.behind]
            records = max((seen.behind for seen in found), default=0)
            yield topic, Unstable(records, max((now - seen.since for seen in found), default=0.0))
