"""Record batches byte by byte, which can say what no client of ours would send."""

import asyncio
import struct
import time
from collections.abc import Callable, Sequence

from aiokafka import TopicPartition
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import for_code
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.record.util import calc_crc32c

from streams.kafka.settings import KafkaSettings

Header = tuple[bytes, bytes | None]


def varint(number: int) -> bytes:
    number = (number << 1) ^ (number >> 63)
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def raw_record(
    delta: int, key: bytes | None, value: bytes | None, headers: Sequence[Header] = (), *, attributes: int = 0
) -> bytes:
    """One record; `delta` is its place in the batch."""
    body = bytes([attributes]) + varint(0) + varint(delta) + sized(key) + sized(value) + varint(len(headers))
    return sized(body + b"".join(sized(name) + sized(content) for name, content in headers))


def raw_batch(records: Sequence[bytes], *, codec: int = 0, pack: Callable[[bytes], bytes] = bytes) -> bytes:
    """A batch of format 2 with a right checksum, whatever is in it."""
    now, count = int(time.time() * 1000), len(records)
    checked = struct.pack(">hiqqqhii", codec, count - 1, now, now, -1, -1, -1, count) + pack(b"".join(records))
    return struct.pack(">qiibI", 0, len(checked) + 9, -1, 2, calc_crc32c(checked)) + checked


async def produce_raw(kafka: KafkaSettings, topic: str, partition: int, batch: bytes) -> int:
    """Append a batch, acknowledged by all. Returns its first offset; raises the KafkaError with which it is refused."""
    client = AIOKafkaClient(**kafka.client_options())
    await client.bootstrap()
    try:
        await client.add_topic(topic)
        async with asyncio.timeout(30):
            while True:
                leader = client.cluster.leader_for_partition(TopicPartition(topic, partition))
                if leader is not None and leader >= 0 and await client.ready(leader):
                    request = ProduceRequest(None, -1, 10_000, [(topic, [(partition, batch)])])
                    ((_, ((_, code, offset, *_),)),) = (await client.send(leader, request)).topics
                    error = for_code(code)
                    if not code:
                        return int(offset)
                    if not error.retriable:
                        raise error
                await asyncio.sleep(0.05)  # a topic just made is not led at once
                await client.force_metadata_update()
    finally:
        await client.close()
