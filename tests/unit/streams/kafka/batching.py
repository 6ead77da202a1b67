"""A producer's batches, for tests whose producer only has a send()."""

import asyncio
from typing import Any


class FakeBatch(list[dict[str, Any]]):
    """Takes `room` records."""

    def __init__(self, room: int = 1 << 30) -> None:
        super().__init__()
        self._room = room

    def append(self, **record: Any) -> Any:  # type: ignore[override]
        if len(self) >= self._room:
            return None
        super().append(record)
        return self


class Batching:
    """Mixed into a fake producer: a batch is as many calls of its send()."""

    room = 1 << 30

    async def send(self, topic: str, value: bytes, **_: Any) -> Any:
        raise NotImplementedError

    def create_batch(self) -> FakeBatch:
        return FakeBatch(self.room)

    async def send_batch(self, batch: FakeBatch, topic: str, *, partition: int) -> Any:
        """Acknowledged when the last of them is, or failed as the first that fails."""
        sent = [
            await self.send(topic, each["value"], key=each["key"], partition=partition, headers=each["headers"])
            for each in batch
        ]
        return asyncio.gather(*sent)
