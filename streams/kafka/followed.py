"""What is made of one compacted topic."""

from typing import Self

from streams.kafka.view import CompactedView


class Followed:
    """An async context manager. Entering it begins to read, and does not wait for the broker; a broker in trouble makes
    what was read old."""

    def __init__(self, view: CompactedView) -> None:
        self._view = view

    async def __aenter__(self) -> Self:
        await self._view.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._view.stop()

    @property
    def failure(self) -> Exception | None:
        """Why reading has ended for good, if it has."""
        return self._view.failure

    @property
    def age_seconds(self) -> float:
        """Since the topic was last heard of."""
        return self._view.age_seconds
