"""Records that a broker takes and the client's own decoder cannot read: each ends once, and nothing stands behind it.

The broker is asked, not believed in: every batch here was acknowledged by all.
"""

import asyncio
import gzip
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Literal

import cramjam
import pytest
from aiokafka import TopicPartition
from aiokafka.codec import lz4_encode, snappy_encode

from admission.world import World
from schemas.dead_letter import HEADER_MESSAGE, HEADER_OFFSET, HEADER_PARTITION, HEADER_REASON, HEADER_TOPIC
from schemas.partition import partition_of
from schemas.topics import Catalogue
from streams.kafka.batches import HEADER_UNREADABLE
from streams.kafka.log import read_log
from streams.kafka.settings import KafkaSettings
from tests.admission import Seen, committed, drained, eventually, lag, request, running, small_world
from tests.raw_records import Header, produce_raw, raw_batch, raw_record, varint

TENANT = "atelier"
BAD_NAME: Header = (b"\xff\xfe", b"x")


@dataclass(frozen=True)
class Case:
    """A batch of three records: which of them end as dead letters, and with what words. The rest is served."""

    dead: tuple[int, ...]
    says: str
    headers: tuple[Header, ...] = ()  # of the middle one
    places: tuple[int, ...] = (0, 1, 2)  # what the records say of their own place
    codec: int = 0
    pack: Callable[[bytes], bytes] = bytes

    def batch(self, name: str) -> tuple[bytes, list[bytes]]:
        """And the values in it."""
        values = [request(TENANT, f"{name}-{n}") for n in range(3)]
        records = [
            raw_record(place, TENANT.encode(), value, self.headers if n == 1 else ())
            for n, (place, value) in enumerate(zip(self.places, values, strict=True))
        ]
        return raw_batch(records, codec=self.codec, pack=self.pack), values

    @property
    def lost(self) -> bool:
        """Whether the values cannot be had either."""
        return len(self.dead) == 3 and self.codec != 0


def _wrong_checksum(data: bytes) -> bytes:
    packer = cramjam.lz4.Compressor(content_checksum=True, block_linked=False)
    packer.compress(data)
    return bytes(packer.finish())[:-4] + b"nope"


def _bomb(pack: Callable[[bytes], object]) -> bytes:
    records = b"".join(raw_record(n, b"k", bytes(6 << 20)) for n in range(3))
    return bytes(pack(records))  # type: ignore[call-overload, no-any-return]


ALL = (0, 1, 2)
CASES: Mapping[str, Case] = {
    "header-name": Case((1,), "not UTF-8", headers=(BAD_NAME, (b"fine", None))),
    "header-name-gzip": Case((1,), "not UTF-8", headers=(BAD_NAME,), codec=1, pack=gzip.compress),
    "header-name-surrogate": Case((1,), "not UTF-8", headers=((b"\xed\xa0\x80", b""),)),
    "place-ahead": Case((1,), "place", places=(0, 1_000_000, 2)),
    "place-behind": Case((2,), "place", places=(0, 1, -7)),
    "places-swapped": Case((0, 1), "place", places=(1, 0, 2)),
    "zstd-bomb": Case(ALL, "16777216 bytes", codec=4, pack=lambda _: _bomb(cramjam.zstd.compress)),
    "gzip-bomb": Case(ALL, "16777216 bytes", codec=1, pack=lambda _: _bomb(gzip.compress)),
    "gzip-and-more": Case(ALL, "decoded", codec=1, pack=lambda data: gzip.compress(data) + b"more"),
    "snappy-and-more": Case(ALL, "decoded", codec=2, pack=lambda data: snappy_encode(data) + b"\0\0\0"),
    "lz4-and-more": Case(ALL, "decoded", codec=3, pack=lambda data: lz4_encode(data) + b"more"),
    "lz4-wrong-checksum": Case(ALL, "decoded", codec=3, pack=_wrong_checksum),
}


@pytest.fixture
def world(catalogue: Catalogue) -> World:
    return small_world(catalogue)


def check(kafka: KafkaSettings, catalogue: Catalogue, sent: Mapping[str, tuple[int, list[bytes]]], fine: int) -> None:
    """One dead letter for each dead place, with its reason, its place and its bytes; a decision for everything else."""
    home = partition_of(TENANT.encode(), catalogue.requests_partitions)
    dead: dict[int, Seen] = {}
    for letter in committed(kafka, catalogue.dead_letters, 1):
        headers = dict(letter.headers)
        assert headers[HEADER_REASON] == b"malformed"
        assert (headers[HEADER_TOPIC], headers[HEADER_PARTITION]) == (catalogue.requests.encode(), b"%d" % home)
        assert int(headers[HEADER_OFFSET]) not in dead
        dead[int(headers[HEADER_OFFSET])] = letter
    for name, (first, values) in sent.items():
        case = CASES[name]
        for place in case.dead:
            letter = dead.pop(first + place)
            assert case.says in dict(letter.headers)[HEADER_MESSAGE].decode()
            assert letter.value == (b"" if case.lost else values[place])
    assert not dead

    served = {f"{name}-{n}" for name in sent for n in range(3) if n not in CASES[name].dead}
    served |= {f"fine-{n}" for n in range(fine)}
    decisions = [each.json() for each in committed(kafka, catalogue.decisions, catalogue.requests_partitions)]
    assert Counter(each["request_id"] for each in decisions) == dict.fromkeys(served, 1)
    assert {each["verdict"] for each in decisions} == {"accepted"}


@pytest.mark.parametrize("intake", ["plain", "faust"])
async def test_an_unreadable_record_is_one_dead_letter(
    kafka: KafkaSettings, catalogue: Catalogue, world: World, intake: Literal["plain", "faust"]
) -> None:
    # cases KQ-01, KQ-02, AIO-26: half of them are there before the service is, which reads those by itself
    home = partition_of(TENANT.encode(), catalogue.requests_partitions)
    sent: dict[str, tuple[int, list[bytes]]] = {}
    fine = 0

    async def send(name: str) -> None:
        nonlocal fine
        batch, values = CASES[name].batch(name)
        sent[name] = await produce_raw(kafka, catalogue.requests, home, batch), values
        between = raw_batch([raw_record(0, TENANT.encode(), request(TENANT, f"fine-{fine}"))])
        await produce_raw(kafka, catalogue.requests, home, between)
        fine += 1

    names = list(CASES)
    for name in names[::2]:
        await send(name)
    async with running(kafka, world, intake) as service:
        await eventually(lambda: service.not_ready() is None, what="an open lease")
        for name in names[1::2]:
            await send(name)

        async def all_ended() -> bool:
            ended = await asyncio.to_thread(committed, kafka, catalogue.decisions, catalogue.requests_partitions)
            dead = await asyncio.to_thread(committed, kafka, catalogue.dead_letters, 1)
            return len(ended) + len(dead) >= 3 * len(sent) + fine

        await eventually(all_ended, what="an ending of every record")
        await drained(kafka, catalogue)
        assert service.not_alive() is None
        await eventually(lambda: service.not_ready() is None, what="an open lease")
    await asyncio.to_thread(check, kafka, catalogue, sent, fine)
    assert set(lag(kafka, catalogue).values()) == {0}


@pytest.mark.parametrize("home", [True, False])
async def test_half_a_million_headers_in_a_small_batch_end_and_stop_nobody(
    kafka: KafkaSettings, catalogue: Catalogue, world: World, home: bool
) -> None:
    """Case ADM-14: what is written of it, a dead letter or the request at its home, must fit there."""
    at_home = partition_of(TENANT.encode(), catalogue.requests_partitions)
    many = b"".join([varint(1), b"h", varint(0)]) * 500_000
    value = b"no JSON" if home else request(TENANT, "headed")
    body = b"\0\0\0" + varint(1) + b"k" + varint(len(value)) + value + varint(500_000) + many
    batch = raw_batch([varint(len(body)) + body], codec=1, pack=gzip.compress)
    async with running(kafka, world, "plain") as service:
        await eventually(lambda: service.not_ready() is None, what="an open lease")
        at = at_home if home else 1 - at_home
        await produce_raw(kafka, catalogue.requests, at, batch)
        after = raw_batch([raw_record(0, TENANT.encode(), request(TENANT, "after"))])
        await produce_raw(kafka, catalogue.requests, at, after)
        await eventually(lambda: len(committed(kafka, catalogue.decisions, 2)) == (1 if home else 2), what="decisions")
        await drained(kafka, catalogue)
    assert len(committed(kafka, catalogue.dead_letters, 1)) == home


@pytest.mark.parametrize("name", CASES)
async def test_a_log_is_read_through_it(kafka: KafkaSettings, catalogue: Catalogue, name: str) -> None:
    # case KQ-02: no record is left out, none is given twice, and what is not as it was sent says so
    case = CASES[name]
    batch, values = case.batch(name)
    first = await produce_raw(kafka, catalogue.results, 0, batch)
    partition = TopicPartition(catalogue.results, 0)
    async with aclosing(read_log(kafka, [partition])) as records:
        read = [record async for record in records]
    assert [record.offset for record in read] == [first, first + 1, first + 2]
    assert [n for n, record in enumerate(read) if HEADER_UNREADABLE in dict(record.headers)] == list(case.dead)
    assert [record.value for record in read] == ([b""] * 3 if case.lost else values)
