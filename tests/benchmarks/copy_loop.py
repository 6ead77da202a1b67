"""The peer: the shortest aiokafka loop that reads a topic and writes every record to another one, acks=all.

    python -m tests.benchmarks.copy_loop BOOTSTRAP GROUP SOURCE TARGET [--validate]

It keeps no promise: a crash loses or repeats records. It shows what the client and the broker cost by themselves; with
--validate, what a service costs at least that may not believe its records.
"""

import asyncio
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from schemas.codec import decode_object
from schemas.request import GenerationRequest

_BATCH = 500


async def copy(bootstrap: str, group: str, source: str, target: str, *, validating: bool) -> None:
    """Copy until cancelled. Prints `ready` once partitions are assigned. Validating, it raises at a bad record."""
    consumer = AIOKafkaConsumer(
        source,
        bootstrap_servers=bootstrap,
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        fetch_max_wait_ms=100,
    )
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", linger_ms=0)
    ready = False
    async with consumer, producer:
        while True:
            taken = await consumer.getmany(timeout_ms=100, max_records=_BATCH)
            if not ready and consumer.assignment():
                ready = True
                print("ready", flush=True)
            if validating:
                for records in taken.values():
                    for record in records:
                        GenerationRequest.model_validate(decode_object(record.value))
            sends = [
                await producer.send(target, record.value, key=record.key, partition=record.partition)
                for records in taken.values()
                for record in records
            ]
            if sends:
                await asyncio.gather(*sends)
                await consumer.commit()


if __name__ == "__main__":
    asyncio.run(copy(*sys.argv[1:5], validating=sys.argv[5:] == ["--validate"]))
