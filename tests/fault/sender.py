"""Publishes a plan's requests through confluent-kafka, and keeps what the broker has acknowledged."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from confluent_kafka import Producer

from schemas.partition import partition_of
from tests.fault.history import Meaning, Sent
from tests.fault.plan import Sending

_SECONDS = 30.0


class Sender:
    """An idempotent and a transactional producer with Kafka's own partitioner. Not for threads."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._topic = topic
        self._partitions = partitions
        options = {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 0,
            "partitioner": "murmur2_random",
        }
        self._producer: Any = Producer(options)
        self._transactional: Any = Producer(options | {"transactional.id": f"{topic}.sender"})
        self._transactional.init_transactions(_SECONDS)
        self._rendered: dict[int, tuple[bytes | None, Meaning]] = {}
        self._acknowledged: list[Sent] = []
        self._refused: list[str] = []

    def send(self, sending: Sending) -> None:
        """Hand one record to the producer. Blocks for a transactional one only."""
        if sending.of is None:
            value, meaning = sending.wish.render(datetime.now(UTC))
        else:
            value, meaning = self._rendered[sending.of]
        self._rendered[sending.number] = value, meaning
        key = sending.wish.key
        where = {}
        if sending.astray and meaning.name is not None:
            where["partition"] = (partition_of(meaning.name[0].encode(), self._partitions) + 1) % self._partitions

        def delivered(error: object, message: Any) -> None:
            if error is not None:
                self._refused.append(f"record {sending.number}: {error}")
            else:
                self._acknowledged.append(Sent(key, value, message.partition(), message.offset(), meaning))

        if sending.transactional:
            # Only here before it: the order of records is the order of sending.
            self._producer.flush(_SECONDS)
            self._transactional.begin_transaction()
            self._transactional.produce(self._topic, value, key=key, on_delivery=delivered, **where)
            self._transactional.commit_transaction(_SECONDS)
        else:
            self._producer.produce(self._topic, value, key=key, on_delivery=delivered, **where)
            self._producer.poll(0)

    def abort(self, topics: Mapping[str, int]) -> None:
        """A record on each partition of these topics that no reader will ever see: a hole, and a marker after it."""
        self._transactional.begin_transaction()
        for topic, partitions in topics.items():
            for partition in range(partitions):
                self._transactional.produce(topic, b"aborted, and never to be seen", partition=partition)
        self._transactional.flush(_SECONDS)
        self._transactional.abort_transaction(_SECONDS)

    def push(self) -> None:
        """Wait a moment until what was handed over is acknowledged, or nearly so."""
        self._producer.flush(0.5)

    def flush(self, seconds: float) -> Sequence[Sent]:
        """Block until everything is acknowledged, and return it in the order of the log. Raises TimeoutError, or
        RuntimeError where the broker refused a record."""
        if left := self._producer.flush(seconds):
            raise TimeoutError(f"{left} records were not acknowledged within {seconds:.0f} s")
        if self._refused:
            raise RuntimeError(f"the broker refused {self._refused[0]}")
        return sorted(self._acknowledged, key=lambda sent: (sent.partition, sent.offset))
