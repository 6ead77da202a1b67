"""Records go out in batches of ours, in order, and none that failed is taken for sent."""

import asyncio
from typing import Any

import pytest
from aiokafka.errors import KafkaError

from streams.kafka.sending import Output, send_all
from tests.unit.streams.kafka.batching import Batching


class Fake(Batching):
    """Remembers each call, and fails the record that is called bad."""

    def __init__(self, room: int = 1 << 30) -> None:
        self.room = room
        self.sent: list[tuple[str, int, bytes]] = []
        self.batches: list[int] = []

    async def send(self, topic: str, value: bytes, *, partition: int = -1, **_: Any) -> Any:
        acknowledged = asyncio.get_running_loop().create_future()
        if value == b"bad":
            acknowledged.set_exception(KafkaError("refused"))
        else:
            self.sent.append((topic, partition, value))
            acknowledged.set_result(None)
        return acknowledged

    async def send_batch(self, batch: Any, topic: str, *, partition: int) -> Any:
        self.batches.append(len(batch))
        return await super().send_batch(batch, topic, partition=partition)


def _outputs(*places: tuple[str, int], each: int) -> list[Output]:
    """Round and round."""
    return [
        Output(topic, partition, None, str(number).encode()) for number in range(each) for topic, partition in places
    ]


async def test_each_partition_gets_a_batch_with_its_records_in_order() -> None:
    producer = Fake()
    await send_all(producer, _outputs(("a", 0), ("a", 1), ("b", 0), each=50))
    assert producer.batches == [50, 50, 50]
    for place in (("a", 0), ("a", 1), ("b", 0)):
        assert [value for *where, value in producer.sent if tuple(where) == place] == [
            str(number).encode() for number in range(50)
        ]


async def test_what_a_full_batch_does_not_take_is_in_the_next() -> None:
    producer = Fake(room=20)
    await send_all(producer, _outputs(("a", 0), each=50))
    assert producer.batches == [20, 20, 10]
    assert [value for *_, value in producer.sent] == [str(number).encode() for number in range(50)]


async def test_a_large_record_goes_alone_and_keeps_its_place() -> None:
    producer = Fake()
    outputs = _outputs(("a", 0), each=4)
    outputs.insert(2, Output("a", 0, None, bytes(200 << 10)))
    await send_all(producer, outputs)
    assert producer.batches == [2, 2]
    assert [len(value) for *_, value in producer.sent] == [1, 1, 200 << 10, 1, 1]


async def test_one_failure_among_many_is_raised() -> None:
    for bad in range(6):
        outputs = _outputs(("a", 0), ("b", 0), each=3)
        outputs[bad] = Output("a", 0, None, b"bad")
        with pytest.raises(KafkaError, match="refused"):
            await send_all(Fake(), outputs)


async def test_nothing_is_sent_of_nothing() -> None:
    producer = Fake()
    await send_all(producer, [])
    assert producer.batches == []
