"""How many jobs of a pool are not done, by its group's offsets, as a third client of Kafka sees them."""

from collections.abc import Sequence

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

_SECONDS = 30


class Jobs:
    def __init__(self, bootstrap: str, group: str, topics: Sequence[str], partitions: int) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        self._group = group
        self._places = [(topic, partition) for topic in topics for partition in range(partitions)]

    def not_done(self) -> int:
        asked = [ConsumerGroupTopicPartitions(self._group)]
        (answer,) = self._admin.list_consumer_group_offsets(asked).values()
        found = answer.result(_SECONDS).topic_partitions or []
        committed = {(at.topic, at.partition): at.offset for at in found}
        ends = self._admin.list_offsets({TopicPartition(*place): OffsetSpec.latest() for place in self._places})
        return sum(
            end.result(_SECONDS).offset - max(0, committed.get((at.topic, at.partition), 0)) for at, end in ends.items()
        )
