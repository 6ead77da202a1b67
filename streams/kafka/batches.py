"""Record batches as they stand in a log, also where the client's own decoder gives up.

A broker checks a batch's checksum and the lengths in it. It does not look at header names, at places inside an
uncompressed batch, or at what follows a compressed stream. The client's decoder raises at some of these, at every try:
one record of one producer would end every process that reads its partition (cases KQ-01, KQ-02). It believes the
places, so a reader would jump ahead of records not sent yet. What is not as it should be is read here instead,
forgivingly, and says so in a header; no offset of a log is left out.
"""

from collections.abc import Iterator
from typing import Any

from aiokafka.record.default_records import DefaultRecord, DefaultRecordBatch
from aiokafka.record.legacy_records import LegacyRecordBatch

from streams.kafka.unfold import unfold

HEADER_UNREADABLE = "kiln-unreadable"  # its value is a sentence; the record is not what its producer meant

_LENGTH_AT, _MAGIC_AT, _CODEC_AT, _COUNT_AT, _RECORDS_AT = 8, 16, 22, 57, 61
_LENGTH_ENDS = 12  # a batch's length is counted from here
_CODEC_BITS = 7
_APPENDED = 1  # the timestamp type where a broker's clock counts


class Batches:
    """The batches of one fetched partition; the last may be cut off. Stands in for aiokafka's MemoryRecords."""

    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)
        self._at = 0

    def size_in_bytes(self) -> int:
        return len(self._data)

    def has_next(self) -> bool:
        return self._at + _LENGTH_ENDS <= len(self._data) and self._end() <= len(self._data)

    def next_batch(self) -> Any:
        end = self._end()
        data, self._at = self._data[self._at : end], end
        magic = data[_MAGIC_AT]
        return LegacyRecordBatch(data, magic) if magic < 2 else _Batch(data)

    def _end(self) -> int:
        length = int.from_bytes(self._data[self._at + _LENGTH_AT : self._at + _LENGTH_ENDS], signed=True)
        return self._at + _LENGTH_ENDS + length


class _Batch:
    """A batch whose iteration raises for want of memory only, and gives each of its offsets one record at most."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._batch: Any = DefaultRecordBatch(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    def __next__(self) -> Any:
        return next(self._batch)  # of a transaction's marker

    def __iter__(self) -> Iterator[Any]:
        batch, due = self._batch, self._batch.base_offset
        try:
            if batch.compression_type:
                self._unfold()
            for record in self._records():
                yield record
                due = record.offset + 1
        except MemoryError:
            raise  # this says nothing of the batch
        except Exception as error:  # decoders raise what they like
            why = f"its batch cannot be decoded: {error!r}; send it with another client or compression"
            headers = [(HEADER_UNREADABLE, why.encode("utf-8", "replace"))]
            for offset in range(due, batch.next_offset):
                yield DefaultRecord(offset, batch.max_timestamp, batch.timestamp_type, None, b"", headers)

    def _unfold(self) -> None:
        plain = unfold(self._batch.compression_type, bytes(self._data[_RECORDS_AT:]))
        head = bytearray(self._data[:_RECORDS_AT])
        head[_LENGTH_AT:_LENGTH_ENDS] = (_RECORDS_AT - _LENGTH_ENDS + len(plain)).to_bytes(4)
        head[_CODEC_AT] &= ~_CODEC_BITS
        self._data = memoryview(bytes(head) + plain)
        self._batch = DefaultRecordBatch(self._data)

    def _records(self) -> Iterator[Any]:
        """By the client's decoder as far as it goes, for it is quick; the rest by ours."""
        base, end, count = self._batch.base_offset, self._batch.next_offset, _number(self._data, _COUNT_AT)
        dense = count == end - base  # compaction takes records out of a batch and leaves the rest their offsets
        done, due = 0, base
        try:
            for record in self._batch:
                if record.offset != due and (dense or not due < record.offset < end):
                    break
                done, due = done + 1, record.offset + 1
                yield record
            else:
                return
        except Exception:  # noqa: S110 -- read again below
            pass
        body, at = bytes(self._data[_RECORDS_AT:]), 0
        for number in range(count):
            one, at = _sized(body, at)
            if number >= done:
                record = _record(self._batch, one or b"", due, dense)
                yield record
                due = record.offset + 1


def _record(batch: Any, body: bytes, due: int, dense: bool) -> Any:
    after, at = _varint(body, 1)  # behind its attributes, which nobody uses
    delta, at = _varint(body, at)
    key, at = _sized(body, at)
    value, at = _sized(body, at)
    count, at = _varint(body, at)
    flaws, headers = [], []
    for _ in range(count):
        name, at = _sized(body, at)
        content, at = _sized(body, at)
        try:
            headers.append(((name or b"").decode(), content))
        except UnicodeDecodeError:
            headers.append(((name or b"").decode("utf-8", "backslashreplace"), content))
            flaws.append("a header's name is not UTF-8")
    offset = batch.base_offset + delta
    if offset != due and (dense or not due < offset < batch.next_offset):
        flaws.append(f"its place in the batch is given as {delta}")
        offset = due
    if flaws:
        headers.append((HEADER_UNREADABLE, ("; ".join(dict.fromkeys(flaws)) + "; mend the producer").encode()))
    time = batch.max_timestamp if batch.timestamp_type == _APPENDED else batch.first_timestamp + after
    return DefaultRecord(offset, time, batch.timestamp_type, key, value, headers)


def _sized(body: bytes, at: int) -> tuple[bytes | None, int]:
    length, at = _varint(body, at)
    if at + length > len(body):
        raise EOFError("it ends in the middle of a record")
    return (None, at) if length < 0 else (body[at : at + length], at + length)


def _varint(body: bytes, at: int) -> tuple[int, int]:
    """The client's own looks at memory behind the end."""
    number = 0
    for shift in range(0, 70, 7):
        byte = body[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
    raise ValueError("a number is too long")


def _number(data: memoryview, at: int) -> int:
    return int.from_bytes(data[at : at + 4], signed=True)
