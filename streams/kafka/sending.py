"""Many records at once, as batches of our own making: the client's way, a future a record, costs more than all else
that is done with an accepted request.
"""

import asyncio
import time
from collections.abc import Iterable
from typing import Any, NamedTuple

from aiokafka import AIOKafkaProducer

# Of a batch that is full at 512 KiB nothing is saved by a record of this size, and the client's own way refuses what is
# too large by its name.
_ALONE_BYTES = 128 << 10


class Output(NamedTuple):
    """A record to be written, with a key or a value. The partition is always explicit, since the decision has stored
    it. A tuple, since each request makes three of them."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


async def send_all(producer: AIOKafkaProducer, outputs: Iterable[Output]) -> None:
    """Send all, in order within each partition, and return when every one is acknowledged.

    Raises what the first failure is; a commit would not notice a batch that has failed (case KQ-19). Whatever fails
    beside it, or after a cancel, complains to nobody.
    """
    now_ms = time.time_ns() // 1_000_000  # the client would ask for each record
    acknowledgements: list[asyncio.Future[Any]] = []
    batches: dict[tuple[str, int], Any] = {}

    async def submit(place: tuple[str, int]) -> None:
        topic, partition = place
        batch = batches.pop(place, None)
        if batch is not None:
            acknowledgements.append(await producer.send_batch(batch, topic, partition=partition))

    try:
        for output in outputs:
            topic, partition, key, value, headers = output
            assert key is not None or value is not None, "a record needs a key or a value"
            place = topic, partition
            if value is not None and len(value) >= _ALONE_BYTES:
                await submit(place)
                acknowledgements.append(await _send(producer, output))
                continue
            batch = batches.get(place)
            if batch is not None:
                if batch.append(timestamp=now_ms, key=key, value=value, headers=list(headers)) is not None:
                    continue
                await submit(place)  # it is full; an empty one takes any record
            batch = batches[place] = producer.create_batch()
            batch.append(timestamp=now_ms, key=key, value=value, headers=list(headers))
        for place in list(batches):
            await submit(place)
        for acknowledgement in acknowledgements:
            await acknowledgement
    finally:
        for acknowledgement in acknowledgements:
            acknowledgement.add_done_callback(_look_at)


async def _send(producer: AIOKafkaProducer, output: Output) -> "asyncio.Future[Any]":
    sent: asyncio.Future[Any] = await producer.send(
        output.topic, output.value, key=output.key, partition=output.partition, headers=list(output.headers)
    )
    return sent


def _look_at(acknowledgement: "asyncio.Future[Any]") -> None:
    """One failure is raised and tells all; asyncio need not report the others."""
    if not acknowledgement.cancelled():
        acknowledgement.exception()
