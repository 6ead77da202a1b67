"""Which member of a pool's group gets which partitions: whole partition indexes, sticky, in contiguous runs.

A partition index is partition i of every lane. All its lanes go to one member, for one lease speaks for all of them.
Of the assignors that come with the client, range moves more than half of the partitions when a ninth member joins,
round-robin scatters lanes, and sticky keeps a third of the lanes apart; this one moves what it must, n / members.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aiokafka.cluster import ClusterMetadata
from aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata

from streams.kafka.groups import INDEX_PROTOCOL

_VERSION = 0
_GENERATION_MAX = 2**62


@dataclass(frozen=True, slots=True)
class Holding:
    """What a member says it owned, and in which generation of the group. `moved`: of what the leader gives it, what
    another member owned until now."""

    indexes: tuple[int, ...] = ()
    generation: int = 0
    moved: tuple[int, ...] = ()

    def encode(self) -> bytes:
        said = {"generation": self.generation, "owned": self.indexes, "moved": self.moved}
        return json.dumps(said).encode()

    @classmethod
    def decode(cls, user_data: bytes | None) -> "Holding":
        """Never raises: a member that says nothing readable owned nothing. One bad member must not stop a group."""
        try:
            body = json.loads(user_data or b"{}")
            owned, moved = _numbers(body.get("owned", ())), _numbers(body.get("moved", ()))
            generation = body.get("generation", 0)
        except (ValueError, AttributeError, TypeError, RecursionError):
            return cls()
        if type(generation) is not int or not 0 <= generation <= _GENERATION_MAX:
            return cls()
        return cls(owned, generation, moved)


def _numbers(said: Any) -> tuple[int, ...]:
    """Raises TypeError where it is no list."""
    return tuple(sorted({each for each in said if type(each) is int and each >= 0}))


def plan(indexes: Sequence[int], members: Mapping[str, Holding]) -> dict[str, list[int]]:
    """Give each index exactly one member: counts within 1 of each other, and each keeps what it can of what it had.

    Where two say they own an index the newer generation is right: the other one was away.
    """
    held = _settled_claims(indexes, members)
    order = sorted(members, key=lambda member: (held[member][:1] or [_GENERATION_MAX], member))
    quota = _quotas(len(indexes), order, held)
    kept = {member: held[member][: quota[member]] for member in order}
    free = dict.fromkeys(sorted(set(indexes).difference(*kept.values())))
    for member in order:
        _extend(kept[member], quota[member], free)
    for member in order:
        for index in list(free)[: quota[member] - len(kept[member])]:
            kept[member].append(index)
            del free[index]
    assert not free, f"indexes without an owner: {list(free)}"
    return {member: sorted(kept[member]) for member in members}


def _settled_claims(indexes: Sequence[int], members: Mapping[str, Holding]) -> dict[str, list[int]]:
    owner: dict[int, str] = {}
    for member in sorted(members, key=lambda each: (-members[each].generation, each)):
        for index in members[member].indexes:
            owner.setdefault(index, member)
    known = set(indexes)
    return {
        member: [index for index in holding.indexes if index in known and owner[index] == member]
        for member, holding in members.items()
    }


def _quotas(count: int, order: Sequence[str], held: Mapping[str, list[int]]) -> dict[str, int]:
    """Even shares; whoever holds most keeps one more where they do not divide."""
    share, over = divmod(count, len(order))
    most_first = sorted(order, key=lambda member: -len(held[member]))
    return {member: share + (place < over) for place, member in enumerate(most_first)}


def _extend(run: list[int], quota: int, free: dict[int, None]) -> None:
    """Grow the runs of a member by the free indexes next to them, so that neighbours stay together."""
    edges = list(run)
    while edges and len(run) < quota:
        edge = edges.pop(0)
        for index in (edge - 1, edge + 1):
            if index in free and len(run) < quota:
                del free[index]
                run.append(index)
                edges.append(index)


class IndexAssignor(AbstractPartitionAssignor):  # type: ignore[misc]
    """One object a consumer: it remembers what its member owned, and tells it at the next rebalance. `moved`: what of
    that another live member owned before."""

    name = INDEX_PROTOCOL

    def __init__(self) -> None:
        self._holding = Holding()
        self.moved: frozenset[int] = frozenset()

    def metadata(self, topics: Iterable[str]) -> ConsumerProtocolMemberMetadata:
        return ConsumerProtocolMemberMetadata(_VERSION, sorted(topics), self._holding.encode())

    def on_assignment(self, assignment: ConsumerProtocolMemberAssignment) -> None:
        indexes = tuple(sorted({each.partition for each in assignment.partitions()}))
        said = Holding.decode(assignment.user_data)
        self._holding = Holding(indexes, said.generation)
        self.moved = frozenset(said.moved).intersection(indexes)

    def assign(
        self, cluster: ClusterMetadata, members: Mapping[str, ConsumerProtocolMemberMetadata]
    ) -> dict[str, ConsumerProtocolMemberAssignment]:
        """Called on the group's leader only."""
        holdings = {member: Holding.decode(metadata.user_data) for member, metadata in members.items()}
        topics = sorted({topic for metadata in members.values() for topic in metadata.subscription})
        partitions = {topic: cluster.partitions_for_topic(topic) or set() for topic in topics}
        indexes = sorted(set().union(*partitions.values()))
        owned = plan(indexes, holdings)
        before = {index: member for member, held in _settled_claims(indexes, holdings).items() for index in held}
        owner = {index: member for member, indexes in owned.items() for index in indexes}
        shares: dict[str, dict[str, list[int]]] = {member: {} for member in members}
        for topic in topics:
            readers = sorted(member for member in members if topic in members[member].subscription)
            for index in sorted(partitions[topic]):
                # During an upgrade a member may not know a lane yet: somebody who does must own it all the same.
                member = owner[index] if owner[index] in readers else readers[index % len(readers)]
                shares[member].setdefault(topic, []).append(index)
        generation = 1 + max(holding.generation for holding in holdings.values())
        given = {}
        for member, share in shares.items():
            moved = tuple(index for index in owned[member] if before.get(index, member) != member)
            said = Holding((), generation, moved).encode()
            given[member] = ConsumerProtocolMemberAssignment(_VERSION, sorted(share.items()), said)
        return given
