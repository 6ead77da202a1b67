"""The only owner is killed while it remembers many names: how long until another decides, and what it costs to open.

The first is whole processes, and mostly the group's patience with a member that is gone. The second is the opening of
the leases alone, fence and fold, beside a consumer that reads the same records and does nothing with them.
"""

import asyncio
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import uuid4

from aiokafka import AIOKafkaConsumer, TopicPartition

from admission.settings import AdmissionLimits
from admission.state import State
from streams.kafka.lease import Lease
from streams.kafka.log import Record
from streams.kafka.settings import KafkaSettings
from tests.benchmarks.load import TENANTS, Publisher, Watcher
from tests.fault.children import Child
from tests.fault.waiting import Deadline
from tests.fault.world import World

_BOUND_SECONDS = 60.0
_FETCH_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class Opening:
    """Of all partitions, one after the other."""

    names: int
    seconds: float
    reading_seconds: float  # of a bare consumer


def kill_and_take_over(
    owner: Child, heir: Child, publisher: Publisher, watcher: Watcher, deadline: Deadline
) -> tuple[float, float]:
    """Seconds from SIGKILL of the owner, at which moment the heir is started, to the first decision seen and to one of
    every partition. Raises TooLate after a minute."""
    before = watcher.count
    owner.signal(signal.SIGKILL)
    killed = time.monotonic()
    heir.start()
    ids = {publisher.publish() for _ in TENANTS}  # on all partitions
    publisher.flush()

    def decided() -> bool:
        assert heir.running, f"{heir.name} ended with {heir.exit_status}; see {heir.log}"
        # What the dead one had decided and not produced may come before.
        return watcher.count >= before + len(ids) and watcher.by_request(before).keys() >= ids

    deadline.wait_for(decided, "a decision on every partition after the takeover", seconds=_BOUND_SECONDS)
    came = watcher.by_request(before)
    moments = [came[each][0] for each in ids]
    return min(moments) - killed, max(moments) - killed


def opening(world: World) -> Opening:
    """Opens what the services have left, under ids of its own. Nothing else may run on `world`."""
    return asyncio.run(_opening(world))


async def _opening(world: World) -> Opening:
    kafka = KafkaSettings(bootstrap_servers=world.bootstrap)
    names, opened, read = 0, 0.0, 0.0
    for partition in range(world.catalogue.requests_partitions):
        log = [TopicPartition(topic, partition) for topic in (world.catalogue.tenants, world.catalogue.decisions)]
        began = time.monotonic()
        count = await _read(world.bootstrap, log)
        read += time.monotonic() - began
        began = time.monotonic()
        state, folded = await _open(kafka, world, partition, log)
        opened += time.monotonic() - began
        assert folded == count, f"an opening read {folded} records and a bare consumer {count}"
        names += len(state.names)
    return Opening(names, opened, read)


async def _open(kafka: KafkaSettings, world: World, partition: int, log: list[TopicPartition]) -> tuple[State, int]:
    """As an owner does, but for the transaction at its end."""
    catalogue = world.catalogue
    state, folded = State(partition, AdmissionLimits()), 0

    def fold(record: Record) -> None:
        nonlocal folded
        folded += 1
        if record.topic == catalogue.tenants:
            state.fold_tenants(record.key or b"", record.value)
        else:
            state.fold_decision(record.key or b"", record.headers, record.value)

    lease = Lease(kafka, transactional_id=f"{world.mark}.opening.{partition}", group=f"{world.mark}.opening", log=log)
    try:
        await lease.open(fold)
        state.opened(uuid4, 1 << 62, None, time.time_ns() // 1_000_000)
    finally:
        await lease.close()
    return state, folded


async def _read(bootstrap: str, log: Sequence[TopicPartition]) -> int:
    """Read to the end, and count."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=None,
        enable_auto_commit=False,
        isolation_level="read_committed",
        max_partition_fetch_bytes=_FETCH_BYTES,
        fetch_max_bytes=_FETCH_BYTES,
        fetch_max_wait_ms=20,
    )
    await consumer.start()
    try:
        ends = await consumer.end_offsets(log)
        consumer.assign(log)
        for tp in log:
            consumer.seek(tp, 0)  # at once, or the client would look for a place of its own
        count = 0
        while any([await consumer.position(tp) < end for tp, end in ends.items()]):
            count += sum(len(records) for records in (await consumer.getmany(timeout_ms=20)).values())
        return count
    finally:
        await consumer.stop()
