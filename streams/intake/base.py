"""What takes requests from Kafka, and what it hands them to.

An intake is a member of admission's group. It commits nothing, decides nothing and is not trusted with positions: it
may leave records out or bring them twice, and the owner of the partition notices.
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Protocol

from admission.arrival import Arrival


class IntakeHandler(Protocol):
    """Called from the event loop of `Intake.run`."""

    async def assigned(self, partitions: AbstractSet[int]) -> None:
        """These partitions of requests are ours now, and no others. Returns soon: leases open in the background."""

    async def revoked(self, partitions: AbstractSet[int]) -> None:
        """These are no longer ours. Returns when their owners have let go, which is bounded."""

    async def feed(self, partition: int, arrivals: Iterable[Arrival]) -> None:
        """Requests of one partition, in order. Blocks while its owner's queue is full; that is the backpressure."""


class Intake(Protocol):
    """A member of admission's group."""

    async def run(self, handler: IntakeHandler) -> None:
        """Join the group and feed `handler` until stop(). Raises what made it impossible to go on."""

    async def is_live_member(self) -> bool:
        """Whether the group itself counts this process as a member right now, by a heartbeat."""

    async def stop(self) -> None:
        """Leave the group, so that others take over at once. Returns when run() has."""
