"""Record batches: as the client reads them wherever it can, and in their own places wherever it cannot."""

import gzip
import struct
import zlib
from collections.abc import Sequence
from typing import Any

import cramjam
import pytest
from aiokafka import TopicPartition
from aiokafka.codec import gzip_encode, lz4_encode, snappy_encode, zstd_encode
from aiokafka.consumer import fetcher
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.structs import ConsumerRecord

from streams.kafka import clients
from streams.kafka.batches import HEADER_UNREADABLE, Batches
from streams.kafka.unfold import UNFOLDED_MAX, unfold
from tests.raw_records import raw_batch, raw_record

CODECS = {1: gzip_encode, 2: snappy_encode, 3: lz4_encode, 4: zstd_encode}
RECORDS = [
    raw_record(0, b"key", b"value", [(b"name", b"content"), (b"", None)]),
    raw_record(1, None, b"v" * 3000),
    raw_record(2, b"", None),
]


def read(records: Any, start: int = 0) -> list[ConsumerRecord[bytes, bytes]]:
    at = TopicPartition("log", 0)
    return list(fetcher.PartitionRecords(at, records, [], start, None, None, True, fetcher.READ_COMMITTED))


def at(base: int, batch: bytes) -> bytes:
    return struct.pack(">q", base) + batch[8:]


def marked(records: Sequence[ConsumerRecord[bytes, bytes]]) -> list[int]:
    return [record.offset for record in records if HEADER_UNREADABLE in dict(record.headers)]


def test_the_client_reads_by_it() -> None:
    # case KQ-02: a release of the client that no longer asks for it by this name fails here
    assert fetcher.MemoryRecords is Batches, clients.__name__
    assert "MemoryRecords" in fetcher.Fetcher._proc_fetch_request.__code__.co_names


@pytest.mark.parametrize("codec", [0, *CODECS])
@pytest.mark.parametrize("start", [0, 4])
def test_what_the_client_can_read_is_the_same(codec: int, start: int) -> None:
    batch = raw_batch(RECORDS, codec=codec, pack=CODECS.get(codec, bytes))
    data = at(0, batch) + at(3, batch) + at(6, batch)
    for cut in (0, 1, len(batch) - 5, len(batch) - 60):  # a broker cuts the last batch where the limit is
        whole = data[: len(data) - cut]
        assert read(Batches(whole), start) == read(MemoryRecords(whole), start)
    assert Batches(data).size_in_bytes() == len(data)
    assert not Batches(b"").has_next()


def test_compacted_batches_keep_their_holes() -> None:
    sparse = [raw_record(place, b"key", b"value") for place in (0, 4, 7)]
    odd = raw_record(5, b"key", b"value", [(b"\xff", b"")])
    for records, flawed in ((sparse, []), ([*sparse[:2], odd, sparse[2]], [5])):
        batch = raw_batch(records)
        batch = batch[:23] + struct.pack(">i", 9) + batch[27:]  # its last record, the ninth, is gone
        read_ = list(iter(next_batch(batch)))
        assert [record.offset for record in read_] == [0, 4, *flawed, 7]
        assert marked(read_) == flawed


def next_batch(data: bytes) -> Any:
    batches = Batches(data)
    assert batches.has_next()
    return batches.next_batch()


def test_nothing_is_believed_of_a_record_that_ends_too_soon() -> None:
    batch = raw_batch([RECORDS[0], b"\x7f\x00", RECORDS[2]])
    read_ = read(Batches(batch))
    assert [record.offset for record in read_] == [0, 1, 2]
    assert marked(read_) == [1, 2]
    assert read_[1].value == b""


def test_a_wrong_checksum_is_still_an_error() -> None:
    batch = bytearray(raw_batch(RECORDS))
    batch[-1] ^= 1
    with pytest.raises(fetcher.Errors.CorruptRecordException):
        read(Batches(bytes(batch)))


@pytest.mark.parametrize("codec", CODECS)
def test_unfolding_is_bounded(codec: int) -> None:
    exactly = bytes(UNFOLDED_MAX)
    assert unfold(codec, CODECS[codec](exactly)) == exactly
    assert unfold(codec, CODECS[codec](b"x")) == b"x"
    for broken in (b"no stream", CODECS[codec](b"some bytes")[:-1]):
        with pytest.raises((OverflowError, EOFError, zlib.error, cramjam.DecompressionError)):
            unfold(codec, broken)
    if codec != 2:  # snappy is its own bound
        with pytest.raises(OverflowError):
            unfold(codec, CODECS[codec](exactly + b"x"))


def test_gzip_streams_stand_one_behind_the_other() -> None:
    assert unfold(1, gzip.compress(b"one") + gzip.compress(b"two")) == b"onetwo"
