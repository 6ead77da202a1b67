"""Which partition a key belongs to: Kafka's default partitioner, murmur2.

Source: org.apache.kafka.common.utils.Utils.murmur2 and BuiltInPartitioner; seed 0x9747b28c, m 0x5bd1e995, r 24.
Clients on librdkafka use CRC32 by default; a request they put elsewhere is sent home once.
"""

from functools import lru_cache

_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The unsigned 32-bit hash of `data`."""
    length = len(data)
    h = (0x9747B28C ^ length) & _MASK
    whole = length & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        h = (h * _M & _MASK) ^ k
    if length & 3:
        h = (h ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


@lru_cache(maxsize=4096)  # of tenants, of which few send most
def partition_of(key: bytes, partitions: int) -> int:
    """The partition of `key` among `partitions`, as Kafka's own producers choose it."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions
