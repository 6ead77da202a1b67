"""Every default is explicit, and read back from the clients themselves."""

import asyncio
import inspect
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import ConcurrentTransactions
from aiokafka.producer import sender

from streams.kafka import clients
from streams.kafka.settings import KafkaSettings

KAFKA = KafkaSettings(bootstrap_servers="127.0.0.1:9")
# Deprecated, or of ways to authenticate that the settings do not offer.
UNUSED = {
    "loop",
    "api_version",
    "topics",
    "sasl_kerberos_service_name",
    "sasl_kerberos_domain_name",
    "sasl_oauth_token_provider",
}


class Given(Exception):
    """Carries what a constructor was called with."""


@pytest.mark.parametrize(
    ("kind", "make"),
    [
        (AIOKafkaProducer, lambda: clients.transactional_producer(KAFKA, "t")),
        (AIOKafkaProducer, lambda: clients.idempotent_producer(KAFKA)),
        (AIOKafkaProducer, lambda: clients.best_effort_producer(KAFKA)),
        (AIOKafkaConsumer, lambda: clients.group_consumer(KAFKA, "g")),
        (AIOKafkaConsumer, lambda: clients.log_consumer(KAFKA)),
        (AIOKafkaConsumer, lambda: clients.log_consumer(KAFKA, follow=True)),
        (AIOKafkaConsumer, lambda: clients.ends_consumer(KAFKA)),
        (AIOKafkaAdminClient, lambda: clients.admin_client(KAFKA)),
    ],
)
def test_no_default_is_left_standing(kind: type[Any], make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Case AIO-25. An option that a new version brings must be decided upon here too."""
    taken = set(inspect.signature(kind).parameters)

    def note(*_: Any, **options: Any) -> None:
        raise Given(options)

    monkeypatch.setattr(clients, kind.__name__, note)
    with pytest.raises(Given) as caught:
        make()
    assert set(caught.value.args[0]) == taken - UNUSED


async def test_a_group_consumer_reads_back_what_was_decided() -> None:
    """Case AIO-25."""
    consumer = clients.group_consumer(KAFKA, "g")
    try:
        assert consumer._group_id == "g"
        assert consumer._auto_offset_reset == "earliest"
        assert consumer._isolation_level == "read_committed"
        assert consumer._enable_auto_commit is False
        assert consumer._session_timeout_ms == 10_000
        assert consumer._heartbeat_interval_ms == 3_000
        assert consumer._rebalance_timeout_ms == 60_000
        assert consumer._max_poll_interval_ms == 300_000
        assert consumer._fetch_max_bytes == 8 << 20
        assert consumer._max_partition_fetch_bytes == 8 << 20
        assert consumer._group_instance_id is None
        assert consumer._key_deserializer is None
        assert consumer._value_deserializer is None
    finally:
        await consumer.stop()


async def test_a_log_reader_never_jumps() -> None:
    """Case AIO-25."""
    consumer = clients.log_consumer(KAFKA)
    try:
        assert consumer._group_id is None
        assert consumer._auto_offset_reset == "none"
        assert consumer._isolation_level == "read_committed"
        assert consumer._enable_auto_commit is False
        assert consumer._max_partition_fetch_bytes == 8 << 20
    finally:
        await consumer.stop()


async def test_a_reader_that_is_to_look_up_many_asks_for_them_together() -> None:
    consumer = clients.log_consumer(KAFKA)
    try:
        clients.look_up(consumer, [TopicPartition(topic, number) for topic in ("a", "b") for number in range(2)])
        assert consumer._client._topics == {"a", "b"}
    finally:
        await consumer.stop()


@pytest.mark.parametrize("transactional_id", ["t", None])
async def test_a_producer_waits_for_all_replicas_and_writes_once(transactional_id: str | None) -> None:
    """Case AIO-25."""
    producer = (
        clients.transactional_producer(KAFKA, transactional_id)
        if transactional_id
        else clients.idempotent_producer(KAFKA)
    )
    try:
        assert producer._sender._acks == -1
        assert producer._max_request_size == 8 << 20
        assert producer._txn_manager.transactional_id == transactional_id
        if transactional_id:
            assert producer._txn_manager.transaction_timeout_ms == 10_000
    finally:
        await producer.stop()


async def test_what_may_be_lost_waits_for_the_leader_alone() -> None:
    producer = clients.best_effort_producer(KAFKA)
    try:
        assert (producer._sender._acks, producer._txn_manager) == (1, None)
    finally:
        await producer.stop()


class Stuck:
    """A client whose stop does not come back until it is cancelled."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error
        self.connections_closed = False
        self.client = self

    async def stop(self) -> None:
        if self.error is not None:
            raise self.error
        await asyncio.Event().wait()

    async def close(self) -> None:
        self.connections_closed = True


@pytest.mark.parametrize("error", [None, RuntimeError("set changed size"), asyncio.CancelledError()])
async def test_a_client_that_will_not_stop_is_abandoned(error: BaseException | None) -> None:
    """Case AIO-20 (b); and a stop that ends in a cancel of its own is not ours."""
    before = asyncio.all_tasks()
    stuck = Stuck(error)
    await clients.stop_client(stuck, 0.01)
    assert stuck.connections_closed
    assert asyncio.all_tasks() == before


async def test_a_cancel_of_ours_passes_through_a_stop() -> None:
    task = asyncio.create_task(clients.stop_client(Stuck(), 60))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_the_library_is_one_that_finds_a_new_coordinator() -> None:
    """Cases AIO-05 and AIO-07: before 0.14 one broker's maintenance froze every transaction."""
    major, minor = (int(part) for part in version("aiokafka").split(".")[:2])
    assert (major, minor) >= (0, 14)


def test_a_transaction_asks_soon_whether_the_markers_of_the_former_are_written() -> None:
    manager = SimpleNamespace(txn_partitions=set())
    asking = sender.AddPartitionsToTxnHandler(SimpleNamespace(_txn_manager=manager, _retry_backoff=0.1), set())
    refused = SimpleNamespace(errors=[("results", [(0, ConcurrentTransactions.errno)])])
    assert asking.handle_response(refused) == 0.004, clients.__name__
