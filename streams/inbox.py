"""The bounded queue between an intake and the owner of a partition."""

import asyncio
import time
from collections import deque
from collections.abc import Iterable

from admission.arrival import Arrival
from streams.fitting import fitting


class Inbox:
    """Requests taken and not decided. Shut, it drops what is put: an owner that opens its lease reads its log itself,
    and whatever the inbox lost shows as a hole in the offsets."""

    def __init__(self, limit: int, bytes_max: int) -> None:
        self._limit = limit
        self._bytes_max = bytes_max
        self._bytes = 0
        self._queue: deque[tuple[Arrival, int]] = deque()  # with its size
        self._room = asyncio.Event()
        self._changed = asyncio.Event()
        self._open = False

    def __len__(self) -> int:
        return len(self._queue)

    def open(self) -> None:
        self._open = True

    def shut(self) -> None:
        """Forget what is queued; wake the intake that waits for room, and the owner that waits for requests."""
        self._open = False
        self._queue.clear()
        self._bytes = 0
        self._room.set()
        self._changed.set()

    async def put(self, arrivals: Iterable[Arrival]) -> None:
        """One after the other. Blocks while the inbox is full, by number or by bytes: this is the backpressure an
        intake feels. A record larger than all of it waits until it is empty."""
        for arrival in arrivals:
            while self._open and (len(self._queue) >= self._limit or self._bytes >= self._bytes_max):
                self._room.clear()
                await self._room.wait()
            if not self._open:
                return
            size = arrival.wire_bytes
            if not self._queue:
                self._changed.set()
            self._queue.append((arrival, size))
            self._bytes += size

    async def take(
        self, most: int, bytes_max: int, *, idle_seconds: float, linger_seconds: float, rest_until: float = 0
    ) -> list[Arrival]:
        """Requests in the order in which they were put, so many and so many bytes at most; none after `idle_seconds` or
        when shut. A batch that is not full waits `linger_seconds` for more, and until `rest_until` of the monotonic
        clock, which is over for a request that comes later."""
        if not self._queue:
            self._changed.clear()
            try:
                async with asyncio.timeout(idle_seconds):  # wait_for() would lose a cancel that comes with a request
                    await self._changed.wait()
            except TimeoutError:
                return []
        wait = max(linger_seconds, rest_until - time.monotonic())
        if self._open and len(self._queue) < most and self._bytes < bytes_max and wait > 0:
            await asyncio.sleep(wait)
        length = fitting((size for _, size in self._queue), most, bytes_max)
        taken = [self._queue.popleft() for _ in range(length)]
        self._bytes -= sum(size for _, size in taken)
        self._room.set()
        return [arrival for arrival, _ in taken]


def batch_length(arrivals: Iterable[Arrival], most: int, bytes_max: int) -> int:
    """How many of the first make one batch."""
    return fitting((arrival.wire_bytes for arrival in arrivals), most, bytes_max)
