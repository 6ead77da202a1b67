import random

import pytest
from aiokafka.partitioner import murmur2 as aiokafka_murmur2

from schemas.partition import murmur2, partition_of

# org.apache.kafka.common.utils.UtilsTest
VECTORS = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize(("key", "signed"), VECTORS.items())
def test_the_vectors_of_kafka_s_own_tests(key: bytes, signed: int) -> None:
    assert murmur2(key) == signed & 0xFFFFFFFF


def test_it_agrees_with_another_implementation_at_every_length() -> None:
    numbers = random.Random(1)
    for length in range(200):
        key = numbers.randbytes(length)
        assert murmur2(key) == aiokafka_murmur2(key) & 0xFFFFFFFF


def test_a_partition_is_within_bounds_and_all_are_used() -> None:
    partitions = {partition_of(f"tenant-{n}".encode(), 7) for n in range(200)}
    assert partitions == set(range(7))
    assert partition_of(b"anything", 1) == 0


def test_the_sign_bit_is_dropped_as_kafka_drops_it() -> None:
    assert partition_of(b"21", 4) == (-973932308 & 0x7FFFFFFF) % 4
