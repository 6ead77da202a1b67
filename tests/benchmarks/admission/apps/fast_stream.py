"""FastStream, at least once: a handler a record, or with --batches a handler a batch. State in memory."""

import asyncio
import sys
from collections.abc import Sequence
from typing import Any

from faststream import AckPolicy, FastStream
from faststream.kafka import KafkaBroker

from tests.benchmarks.admission.apps.door import BOOTSTRAP, Door

_BATCH = 500

door = Door()
# Bytes are decoded and validated by the decision: its own decoding and validation are off.
broker = KafkaBroker(BOOTSTRAP, acks="all", apply_types=False, logger=None)
common = {
    "group_id": door.group,
    "auto_offset_reset": "earliest",
    "isolation_level": "read_committed",
    "ack_policy": AckPolicy.NACK_ON_ERROR,
}


async def admit(record: Any) -> None:
    await _publish(record)


async def admit_all(records: Sequence[Any]) -> None:
    """Acknowledged together, so that no round trip is waited for alone."""
    await asyncio.gather(*[await _publish(record, no_confirm=True) for record in records])


async def _publish(record: Any, *, no_confirm: bool = False) -> Any:
    work = door.admit(record.partition, record.offset, record.timestamp, record.key, record.value)
    headers = {name: value.decode() for name, value in work.headers}
    return await broker.publish(
        work.value, work.topic, key=work.key, partition=work.partition, headers=headers, no_confirm=no_confirm
    )


async def raw(message: Any) -> Any:
    return message.raw_message


if __name__ == "__main__":
    if "--batches" in sys.argv:
        options: dict[str, Any] = {"batch": True, "max_records": _BATCH, "batch_timeout_ms": 100}
        broker.subscriber(door.catalogue.requests, **common, **options, decoder=raw)(admit_all)
    else:
        broker.subscriber(door.catalogue.requests, **common, decoder=raw)(admit)
    asyncio.run(FastStream(broker, logger=None).run())
