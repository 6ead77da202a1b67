"""Reading Kafka by another client library than the services use, and setting offsets back, with proof that it took."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.fault.history import Record

_SECONDS = 30.0


class ResetFailed(Exception):
    """The group's offsets are not at the earliest; the sentence says which and why."""


class StuckLog(Exception):
    """A partition cannot be read to its end: most likely an open transaction."""


def read_all(bootstrap: str, topics: Sequence[str]) -> list[Record]:
    """Every committed record, in the order of topic, partition and offset. Raises StuckLog after 30 s without end."""
    consumer = _consumer(bootstrap, isolation="read_committed")
    try:
        everywhere = [each for topic in topics for each in _partitions(consumer, topic)]
        ends = {(each.topic, each.partition): _end(bootstrap, each) for each in everywhere}
        waiting = {place for place, end in ends.items() if end > 0}
        consumer.assign([TopicPartition(each.topic, each.partition, 0) for each in everywhere])
        records = []
        deadline = time.monotonic() + _SECONDS
        while waiting:
            if time.monotonic() > deadline:
                raise StuckLog(f"no end of {sorted(waiting)} after {_SECONDS:.0f} s: an open transaction?")
            for message in consumer.consume(500, timeout=0.2):
                place = message.topic(), message.partition()
                if message.error() is None:
                    records.append(_record(message))
                # A position does not pass the markers of transactions; the end of the partition that is told does.
                elif message.error().code() == KafkaError._PARTITION_EOF and message.offset() >= ends.get(place, 0):
                    waiting.discard(place)
    finally:
        consumer.close()
    return sorted(records, key=lambda record: (record.topic, record.partition, record.offset))


def lag_of(bootstrap: str, group: str, topics: Sequence[str]) -> int:
    """What KEDA would see: the high watermark less the committed offset, and everything where none is committed."""
    consumer = _consumer(bootstrap, group=group, isolation="read_uncommitted")
    try:
        partitions = [each for topic in topics for each in _partitions(consumer, topic)]
        lag = 0
        for each in consumer.committed(partitions, timeout=_SECONDS):
            low, high = consumer.get_watermark_offsets(each, timeout=_SECONDS)
            lag += high - max(each.offset, low)
        return lag
    finally:
        consumer.close()


def holders_of(bootstrap: str, group: str) -> set[str]:
    """The client ids of the group's members that have partitions, as the broker sees it."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 4})
    described = admin.describe_consumer_groups([group], request_timeout=_SECONDS)[group].result(timeout=_SECONDS)
    return {member.client_id for member in described.members if member.assignment.topic_partitions}


def reset_to_earliest(bootstrap: str, groups: Mapping[str, Sequence[str]], *, seconds: float) -> dict[str, int]:
    """Set every partition of every group back to its first offset, and return the lag that follows. The groups must
    have no process left; members that were killed leave when their session ends, so this tries for `seconds`.
    Raises ResetFailed."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 4})
    lags = {}
    for group, topics in groups.items():
        deadline = time.monotonic() + seconds
        while (problem := _reset(admin, bootstrap, group, topics)) is not None:
            if time.monotonic() > deadline:
                raise ResetFailed(f"group {group}: {problem}")
            time.sleep(0.2)
        lags[group] = lag_of(bootstrap, group, topics)
    return lags


def _reset(admin: Any, bootstrap: str, group: str, topics: Sequence[str]) -> str | None:
    """None where every partition took it. The client reports errors a partition at a time, and raises for few."""
    consumer = _consumer(bootstrap, isolation="read_uncommitted")
    try:
        partitions = [each for topic in topics for each in _partitions(consumer, topic)]
        wanted = {
            (each.topic, each.partition): consumer.get_watermark_offsets(each, timeout=_SECONDS)[0]
            for each in partitions
        }
    finally:
        consumer.close()
    offsets = [TopicPartition(topic, partition, low) for (topic, partition), low in wanted.items()]
    try:
        future = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, offsets)])[group]
        errors = [str(each.error) for each in future.result(timeout=_SECONDS).topic_partitions if each.error]
    except KafkaException as error:
        return str(error)
    if errors:
        return errors[0]
    consumer = _consumer(bootstrap, group=group, isolation="read_uncommitted")
    try:
        committed = consumer.committed(offsets, timeout=_SECONDS)
    finally:
        consumer.close()
    astray = [each for each in committed if each.offset != wanted[each.topic, each.partition]]
    return f"{astray[0]} is not at the earliest" if astray else None


def _consumer(bootstrap: str, *, isolation: str, group: str = "independent-reader") -> Any:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "isolation.level": isolation,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )


def _partitions(consumer: Any, topic: str) -> list[Any]:
    metadata = consumer.list_topics(topic, timeout=_SECONDS).topics[topic]
    if metadata.error is not None:
        raise KafkaException(metadata.error)
    return [TopicPartition(topic, partition) for partition in sorted(metadata.partitions)]


def _end(bootstrap: str, partition: Any) -> int:
    """The high watermark, open transactions included: they must end before the log is read."""
    consumer = _consumer(bootstrap, isolation="read_uncommitted")
    try:
        return int(consumer.get_watermark_offsets(partition, timeout=_SECONDS)[1])
    finally:
        consumer.close()


def _record(message: Any) -> Record:
    return Record(
        topic=message.topic(),
        partition=message.partition(),
        offset=message.offset(),
        key=message.key(),
        value=message.value(),
        headers=tuple(message.headers() or ()),
        timestamp_ms=message.timestamp()[1],
    )
