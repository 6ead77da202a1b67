"""What a record of work tells the scaler, whoever wrote it."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition

from infra.scaler.book import Book, Place, Work
from infra.scaler.reader import WorkReader, deadline_of, work_of
from schemas.codec import encode
from streams.kafka.settings import KafkaSettings
from tests.integration.gpu_pool import work_item
from tests.kafka import small_catalogue


def test_a_work_item_says_its_price_and_its_deadline() -> None:
    item = work_item("job", price_gpu_seconds=12.5, images=3)
    assert work_of(encode(item)) == Work(12.5, item.config_hash, 3)
    record: Any = SimpleNamespace(headers=item.headers())
    assert deadline_of(record) == pytest.approx(item.deadline.timestamp(), abs=0.001)


@pytest.mark.parametrize(
    "value",
    [None, b"", b"{", b"[]", b"{}", *(
        b'{"price_gpu_seconds":%s,"config_hash":"a","images":1}' % price
        for price in (b'"12"', b"-1", b"true", b"NaN", b"1e999", b"null")
    ), *(
        b'{"price_gpu_seconds":%s,"config_hash":"a","images":%s}' % (price, images)
        for price, images in ((b"1", b"0"), (b"1", b"9" * 400), (b"1e308", b"1"))  # of these no sum could be made
    )],
)  # fmt: skip
def test_what_cannot_be_read_has_no_price_and_stops_nobody(value: bytes | None) -> None:
    assert work_of(value) is None


@pytest.mark.parametrize(
    "headers",
    [(), *((("kiln-deadline-ms", value),) for value in (b"soon", b"9" * 400, None)), (("other", b"5"),)],
)
def test_without_a_deadline_it_is_never_due(headers: Any) -> None:
    record: Any = SimpleNamespace(headers=headers)
    assert deadline_of(record) == math.inf


def test_what_was_read_is_told_of_its_pool_at_once() -> None:
    catalogue, told = small_catalogue("kiln", pools=["a", "b"]), list[str]()
    books = {pool: Book(4, 5.0, 10) for pool in catalogue.pools}
    reader = WorkReader(KafkaSettings(bootstrap_servers="127.0.0.1:1"), catalogue, books, told.append)
    item = work_item("job", price_gpu_seconds=12.5)
    record: Any = SimpleNamespace(offset=0, value=encode(item), headers=item.headers())
    reader._take({TopicPartition(catalogue.work("b", "bulk"), 3): [record]})
    assert told == ["b"]
    assert books["b"].read_from(Place("bulk", 3)) == 1
    assert books["a"].read_from(Place("bulk", 3)) == 0
