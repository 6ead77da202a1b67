"""Errors that end the admission service, each a sentence for the person who finds it ended."""


class ServiceError(Exception):
    """Base of this package."""


class CannotOpen(ServiceError):
    """A partition stays ours and its lease cannot be opened. Nothing is committed; another process may try."""

    def __init__(self, partition: int, seconds: float, why: str) -> None:
        super().__init__(
            f"requests[{partition}] is ours and could not be opened for {seconds:.0f} s: {why}; "
            "look at the broker, then start admission again"
        )


class IntakeFailed(ServiceError):
    """The intake ended by itself."""
