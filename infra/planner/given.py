"""What a virtual pool is given: who routes, who chooses what runs next, and who is told."""

from collections.abc import Sequence
from typing import Protocol

from gpu_consumer.scheduling.scheduler import Chosen, Room, Unit
from infra.planner.request import Request
from schemas.request import Lane


class Router(Protocol):
    def partition(self, request: Request) -> int: ...

    def tick(self, now: float) -> None:
        """Called every PERIOD_SECONDS of the pool."""


class Queue(Protocol):
    """What waits at one consumer: the product's scheduler, or what stands beside it in a benchmark."""

    def add(self, unit: Unit, now: float) -> None: ...

    def take(self, now: float, room: Room) -> Chosen | None:
        """What runs next, together; None: ask again at `next_batch`."""

    def next_batch(self, now: float) -> float | None: ...

    def served(self, tenant: str, lane: Lane, gpu_seconds: float) -> None: ...

    def expired(self, now: float) -> Sequence[str]:
        """Jobs that nobody waits for any more, of those that have something queued."""

    def discard(self, job: str) -> int: ...


class Watcher(Protocol):
    """Is told what happens. `owner`: the consumer whose partition a request fell to, where there is one."""

    def arrived(self, request: Request, owner: str | None) -> None: ...

    def began(self, now: float, batch: Sequence[Request], swap: float) -> None:
        """They run from `now` on, which may be a little ahead, with their first pictures; and once more where another
        consumer begins them anew. Before it a model was loaded for `swap` seconds."""

    def ended(self, now: float, request: Request, *, made: bool) -> None:
        """`made`: there are its pictures, in time or not; else it expired."""
