"""How many requests have ended so far, by following the results as they come."""

import json
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from tests.fault.history import Name


class ResultsTail:
    """A read_committed reader of every results partition, from the start. Not for threads."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._consumer: Any = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "independent-tail",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
            }
        )
        self._consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
        self.names: set[Name] = set()

    def ended(self) -> int:
        """Take what has come and count the names. Blocks for a tenth of a second at most."""
        for message in self._consumer.consume(1000, timeout=0.1):
            if message.error() is None:
                event = json.loads(message.value())
                self.names.add((event["tenant"], event["request_id"]))
        return len(self.names)

    def close(self) -> None:
        self._consumer.close()
