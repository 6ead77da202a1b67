"""Every Kafka client of ours is made here, with no default of the library left standing.

aiokafka reads uncommitted records and starts at the end of a topic unless told otherwise: phantoms and silent loss
(case AIO-25). A test compares what is passed here with all that the library takes.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.consumer import fetcher
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.errors import ProducerClosed
from aiokafka.partitioner import DefaultPartitioner
from aiokafka.producer import sender

from streams.kafka.batches import Batches
from streams.kafka.settings import KafkaSettings

fetcher.MemoryRecords = Batches  # the client has no setting for it, and its own raises for ever at some records
# Nor for how soon a transaction asks again whether the markers of the former are written: they take a ms or two
# where the broker is not busy, and it would pause for 20. A result follows its job's mark as closely as that.
sender.BACKOFF_OVERRIDE = 0.004

_LOG = logging.getLogger(__name__)
_ABANDON_SECONDS = 1.0  # closing sockets that nobody waits for any more; no answer of a broker is needed
_LOG_FETCH_WAIT_MS = 20  # a log is read to a known end, so an empty fetch only delays the next one


def transactional_producer(kafka: KafkaSettings, transactional_id: str) -> AIOKafkaProducer:
    """Its start fences every other producer with the same id, and returns when their transaction is decided."""
    return AIOKafkaProducer(
        **_writing(kafka),
        transactional_id=transactional_id,
        transaction_timeout_ms=kafka.transaction_timeout_ms,
    )


def idempotent_producer(kafka: KafkaSettings) -> AIOKafkaProducer:
    """Without transactions, so without markers in its topics: lag reads 0 when the work is done."""
    return AIOKafkaProducer(
        **_writing(kafka),
        transactional_id=None,
        transaction_timeout_ms=kafka.transaction_timeout_ms,  # not used without an id
    )


def best_effort_producer(kafka: KafkaSettings) -> AIOKafkaProducer:
    """For what may be lost, or come twice: the leader alone confirms it."""
    return AIOKafkaProducer(
        **_writing(kafka) | {"acks": 1, "enable_idempotence": False},
        transactional_id=None,
        transaction_timeout_ms=kafka.transaction_timeout_ms,  # not used without an id
    )


def group_consumer(
    kafka: KafkaSettings, group: str, *, assignors: Sequence[type[Any]] = (RoundRobinPartitionAssignor,)
) -> AIOKafkaConsumer:
    """A member of a group that reads committed records from the earliest on, and never commits by itself.

    Subscribe it with a listener, then start it. A getmany that raised may have lost records that it had already
    taken: seek to your own next offset, or make another consumer.
    """
    return AIOKafkaConsumer(
        **_reading(kafka),
        group_id=group,
        auto_offset_reset="earliest",
        fetch_max_wait_ms=kafka.fetch_max_wait_ms,
        partition_assignment_strategy=tuple(assignors),
    )


def log_consumer(kafka: KafkaSettings, *, follow: bool = False) -> AIOKafkaConsumer:
    """A reader without a group. An offset that the log does not hold is an error, never a jump.

    `follow` makes it cheap to wait at the end of a log; without it, quick to reach one.
    """
    return _without_group(kafka, follow=follow)


def ends_consumer(kafka: KafkaSettings) -> AIOKafkaConsumer:
    """For asking where partitions end, open transactions included. It is never to read a record."""
    return _without_group(kafka, isolation_level="read_uncommitted")


def _without_group(kafka: KafkaSettings, *, follow: bool = False, **others: Any) -> AIOKafkaConsumer:
    return AIOKafkaConsumer(
        **_reading(kafka) | others,
        group_id=None,
        auto_offset_reset="none",
        fetch_max_wait_ms=kafka.fetch_max_wait_ms if follow else _LOG_FETCH_WAIT_MS,
        partition_assignment_strategy=(RoundRobinPartitionAssignor,),  # not used without a group
    )


def look_up(reader: AIOKafkaConsumer, partitions: Iterable[TopicPartition]) -> None:
    """Have a reader ask for the leaders of all of them together; what it is asked next waits for that. By itself it
    fails at each topic that it meets for the first time, and pauses before it tries again."""
    for topic in {each.topic for each in partitions}:
        reader._client.add_topic(topic)


def admin_client(kafka: KafkaSettings) -> AIOKafkaAdminClient:
    return AIOKafkaAdminClient(**kafka.client_options())


async def stop_client(client: AIOKafkaProducer | AIOKafkaConsumer, seconds: float) -> None:
    """Stop a client within about so many seconds, whatever state it is in. It never raises for the client's sake.

    aiokafka's own stop may wait for ever for a broker that is gone (case AIO-20), and a reader that is stopped early
    ends it in a CancelledError that nobody has sent. So it runs as a task of its own; what it leaves open is cut.
    """
    stopping = asyncio.ensure_future(client.stop())
    try:
        await asyncio.wait({stopping}, timeout=seconds)
    finally:
        if not stopping.done():
            _LOG.warning("a Kafka client did not stop within %.1f s and is abandoned", seconds)
            stopping.cancel()
    if not stopping.done() or stopping.cancelled() or stopping.exception() is not None:
        await _abandon(client, stopping)
    _hush(client)


async def _abandon(client: AIOKafkaProducer | AIOKafkaConsumer, stopping: "asyncio.Future[None]") -> None:
    """End what still waits within a client: cut its connections, cancel its sender, fail what it has not sent."""
    tasks: set[asyncio.Future[None]] = {stopping}
    sender = getattr(getattr(client, "_sender", None), "sender_task", None)
    if sender is not None:
        sender.cancel()
        tasks.add(sender)
        client._message_accumulator.fail_all(ProducerClosed())
    inner = getattr(client, "client", None) or client._client
    tasks.add(asyncio.ensure_future(inner.close()))
    _, pending = await asyncio.wait(tasks, timeout=_ABANDON_SECONDS)
    if pending:
        for task in pending:
            task.cancel()
        await asyncio.wait(pending, timeout=_ABANDON_SECONDS)
    for task in tasks:
        if task.done() and not task.cancelled():
            task.exception()  # looked at, so that asyncio does not report it


def _hush(client: AIOKafkaProducer | AIOKafkaConsumer) -> None:
    """Look at the failures that a dead producer keeps in futures of its own: the caller has had its error, and asyncio
    would report each of them, with a traceback, for every take-over."""
    accumulator = getattr(client, "_message_accumulator", None)
    batches = [batch for queue in getattr(accumulator, "_batches", {}).values() for batch in queue]
    batches += getattr(accumulator, "_pending_batches", ())
    waiters = [getattr(batch, "_drain_waiter", None) for batch in batches]
    waiters.append(getattr(getattr(client, "_txn_manager", None), "_transaction_waiter", None))
    for waiter in waiters:
        if waiter is not None and waiter.done() and not waiter.cancelled():
            waiter.exception()


def _writing(kafka: KafkaSettings) -> dict[str, Any]:
    return {
        **kafka.client_options(),
        "acks": "all",
        "enable_idempotence": True,
        "linger_ms": 0,
        "max_request_size": kafka.max_request_size,
        "max_batch_size": kafka.max_batch_size,
        "compression_type": None,
        "partitioner": DefaultPartitioner(),
        "key_serializer": None,
        "value_serializer": None,
    }


def _reading(kafka: KafkaSettings) -> dict[str, Any]:
    return {
        **kafka.client_options(),
        "retry_backoff_ms": kafka.reader_retry_backoff_ms,
        "isolation_level": "read_committed",
        "enable_auto_commit": False,
        "auto_commit_interval_ms": 5_000,  # not used without auto commit
        "session_timeout_ms": kafka.session_timeout_ms,
        "heartbeat_interval_ms": kafka.heartbeat_interval_ms,
        "rebalance_timeout_ms": kafka.rebalance_timeout_ms,
        "max_poll_interval_ms": kafka.max_poll_interval_ms,
        "consumer_timeout_ms": 200,  # how soon the fetcher looks again at what it may fetch
        "fetch_min_bytes": 1,
        "fetch_max_bytes": kafka.fetch_max_bytes,
        "max_partition_fetch_bytes": kafka.max_partition_fetch_bytes,
        "max_poll_records": None,
        "check_crcs": True,
        "exclude_internal_topics": True,
        "group_instance_id": None,  # static members with one id are not fenced: they swap for ever
        "client_rack": None,
        "key_deserializer": None,  # bytes: decoding happens in our own try
        "value_deserializer": None,
    }
