"""How many of a kind may run at once: its bucket, or less where memory once ran out."""

from schemas.config import GenerationConfig


class Grants:
    def __init__(self) -> None:
        self._learned: dict[str, int] = {}

    def slots(self, config: GenerationConfig) -> int:
        return min(config.bucket, self._learned.get(config.kind, config.bucket))

    def learn(self, kind: str, slots: int) -> None:
        """More than `slots` of `kind` do not fit."""
        self._learned[kind] = min(slots, self._learned.get(kind, slots))

    def forget(self, kind: str) -> None:
        self._learned.pop(kind, None)
