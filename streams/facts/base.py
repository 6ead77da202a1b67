"""The contract of a fact: something of the world that is followed while admission runs."""

from typing import Protocol, Self

from admission.world import World


class Fact(Protocol):
    """An async context manager. Entering it begins to follow, and does not wait for the broker."""

    name: str

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_: object) -> None: ...

    @property
    def problem(self) -> str | None:
        """Why nothing can be decided without it yet, in a sentence. None: it is there, or it can be done without."""

    @property
    def failure(self) -> Exception | None:
        """Why following has ended for good: the process must end too."""

    @property
    def age_seconds(self) -> float:
        """Since it was last known to be current."""

    def into(self, world: World) -> World:
        """`world` as this fact has it now. Called for every batch: cheap, and it raises nothing."""
