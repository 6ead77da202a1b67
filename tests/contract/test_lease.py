"""What a lease promises, over a real broker."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError, MessageSizeTooLargeError, ProducerFenced

from streams.kafka.errors import LeaseVoid
from streams.kafka.lease import Lease, Transaction
from streams.kafka.log import Record
from streams.kafka.sending import Output
from streams.kafka.settings import KafkaSettings
from tests.contract.leased import PATIENCE_SECONDS, Gate, Leased, die, leased, raw_producer, until, write


@pytest.fixture
async def place(kafka: KafkaSettings, prefix: str) -> AsyncIterator[Leased]:
    """Its transactions may be held for as long as a slow machine takes for what is looked at meanwhile."""
    patient = later(kafka, transaction_timeout_ms=120_000, transaction_deadline_ms=100_000)
    async with leased(patient, prefix) as place:
        yield place


def later(kafka: KafkaSettings, **changes: Any) -> KafkaSettings:
    """The same settings with others, their relations not checked."""
    return kafka.model_copy(update=changes)


async def test_the_second_opening_fences_the_first(place: Leased) -> None:
    """Case AIO-19: what the first had under way is dropped, and it writes that offset never again."""
    first, seen = await place.owner()
    assert seen == []
    await first.transact(lambda: place.step("one", 1))
    second, seen = await place.owner()
    assert seen == [b"one"]
    with pytest.raises(LeaseVoid) as refusal:
        await first.transact(lambda: place.step("zombie", 9))
    assert isinstance(refusal.value.__cause__, ProducerFenced)
    assert first.void
    assert not first.is_open
    await second.transact(lambda: place.step("two", 2))
    await place.becomes_visible(b"one", b"two")
    await place.offset_becomes(2)


async def test_a_lease_says_where_it_stands(place: Leased) -> None:
    lease = place.lease()
    assert (lease.is_open, lease.void) == (False, False)
    await lease.open(lambda _: None)
    assert (lease.is_open, lease.void) == (True, False)
    await lease.close()
    assert (lease.is_open, lease.void) == (False, True)
    with pytest.raises(LeaseVoid):
        await lease.transact(lambda: place.step("late"))
    await lease.close()


async def test_an_open_transaction_of_a_dead_owner_is_decided_at_open(place: Leased) -> None:
    first, _ = await place.owner()
    await first.transact(lambda: place.step("one", 1))
    gate = Gate(first, "commit_transaction")
    pending = asyncio.create_task(first.transact(lambda: place.step("lost", 2)))
    await gate.reached.wait()
    decided = await place.last_stable_offset()
    await die(first._producer)

    second, seen = await place.owner()
    assert seen == [b"one"]
    assert await place.last_stable_offset() > decided
    await second.transact(lambda: place.step("two", 2))
    await place.becomes_visible(b"one", b"two")
    await place.offset_becomes(2)
    pending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await pending


async def test_a_zombies_commit_does_not_land(place: Leased) -> None:
    """Case AIO-10: frozen between its sends and its commit, while another takes the partition and goes on."""
    zombie, _ = await place.owner()
    gate = Gate(zombie, "commit_transaction")
    frozen = asyncio.create_task(zombie.transact(lambda: place.step("zombie", 9)))
    await gate.reached.wait()
    second, seen = await place.owner()
    assert seen == []
    await second.transact(lambda: place.step("one", 1))
    gate.open()
    with pytest.raises(LeaseVoid):
        await frozen
    await second.transact(lambda: place.step("two", 2))
    await place.becomes_visible(b"one", b"two")
    await place.offset_becomes(2)


async def test_with_an_id_of_its_own_the_zombies_commit_would_land(place: Leased) -> None:
    """Why the id is named after the partition, never after the process (case AIO-10): the other way it goes wrong."""
    zombie, _ = await place.owner(transactional_id=f"{place.transactional_id}.process-1")
    gate = Gate(zombie, "send_offsets_to_transaction")
    frozen = asyncio.create_task(zombie.transact(lambda: place.step("zombie", 1)))
    await gate.reached.wait()
    second, _ = await place.owner(transactional_id=f"{place.transactional_id}.process-2")
    await second.transact(lambda: place.step("ten", 10))
    gate.open()
    await frozen
    await place.becomes_visible(b"zombie", b"ten")
    await place.offset_becomes(1)


async def test_fold_sees_exactly_what_was_committed(place: Leased) -> None:
    """Case KQ-16: commit, abort and commit of one producer in one fetch, markers between, an aborted one at the end."""
    async with raw_producer(place.kafka, place.transactional_id) as producer:
        await write(producer, place.log, ["a", "b"], commit=True)
        await write(producer, place.log, ["no"], commit=False)
        await write(producer, place.log, ["c"], commit=True)
        await write(producer, place.log, ["no", "no"], commit=False)
        await write(producer, place.log, ["no"], commit=False)
        await write(producer, place.log, [f"d{number}" for number in range(50)], commit=True)
        await write(producer, place.log, ["no"], commit=False)
    records: list[Record] = []
    await place.lease().open(records.append)
    assert [record.value for record in records] == [b"a", b"b", b"c", *(f"d{n}".encode() for n in range(50))]
    offsets = [record.offset for record in records]
    assert offsets == sorted(set(offsets))


async def test_logs_are_read_one_after_the_other_in_the_order_given(place: Leased) -> None:
    """So that the first may tell what of the second need not be kept, which can be a week of work."""
    first, _ = await place.owner()
    for number in range(5):
        await first.transact(lambda number=number: place.step(str(number)))  # type: ignore[misc]
    for logs in ([place.log, place.out], [place.out, place.log]):
        lease = Lease(place.kafka, transactional_id=place.transactional_id, group=place.group, log=logs)
        place.leases.append(lease)
        folded: list[str] = []
        await lease.open(lambda record, folded=folded: folded.append(record.topic))  # type: ignore[misc]
        assert folded == [at.topic for at in logs for _ in range(5)]


async def test_a_log_of_aborted_records_only_has_an_end(place: Leased) -> None:
    async with raw_producer(place.kafka, place.transactional_id) as producer:
        for _ in range(3):
            await write(producer, place.log, ["no"], commit=False)
    _, seen = await place.owner()
    assert seen == []


async def test_outputs_and_offset_are_one(place: Leased) -> None:
    """Case FST-17. Neither of a transaction that was not committed, both of one that was."""
    first, _ = await place.owner()
    gate = Gate(first, "commit_transaction")
    pending = asyncio.create_task(first.transact(lambda: place.step("one", 1)))
    await gate.reached.wait()
    assert await place.visible() == []
    assert await place.offset() is None
    gate.open()
    await pending
    await place.becomes_visible(b"one")
    await place.offset_becomes(1)


async def test_headers_and_keys_arrive_as_they_were(place: Leased) -> None:
    lease, _ = await place.owner()
    output = Output(place.log.topic, 0, b"\x00key", None, (("reason", "größer".encode()), ("reason", b"")))
    await lease.transact(lambda: Transaction([output], {}))
    records: list[Record] = []
    await place.lease().open(records.append)
    ((key, value, headers),) = ((record.key, record.value, record.headers) for record in records)
    assert (key, value, headers) == (output.key, None, output.headers)


async def test_transactions_come_one_at_a_time_in_the_order_of_their_calls(place: Leased) -> None:
    lease, _ = await place.owner()
    builds = commits = 0
    original = lease._producer.commit_transaction  # type: ignore[union-attr]

    async def counted() -> None:
        nonlocal commits
        await original()
        commits += 1

    lease._producer.commit_transaction = counted  # type: ignore[union-attr]

    def build() -> Transaction:
        nonlocal builds
        assert builds == commits, "built before the former one was committed"
        builds += 1
        return place.step(str(builds), builds)

    await asyncio.gather(*(lease.transact(build) for _ in range(20)))
    await place.becomes_visible(*(str(number).encode() for number in range(1, 21)))
    await place.offset_becomes(20)


async def test_nothing_to_write_writes_nothing(place: Leased) -> None:
    lease, _ = await place.owner()
    before = await place.last_stable_offset()
    await lease.transact(lambda: Transaction([], {}))
    assert lease.is_open
    assert await place.last_stable_offset() == before


async def test_what_build_raises_passes_and_voids(place: Leased) -> None:
    lease, _ = await place.owner()

    def build() -> Transaction:
        raise AssertionError("a watermark fell")

    with pytest.raises(AssertionError, match="a watermark fell"):
        await lease.transact(build)
    with pytest.raises(LeaseVoid):
        await lease.transact(lambda: place.step("late"))
    _, seen = await place.owner()
    assert seen == []


def too_large_for_us(place: Leased) -> Output:
    return Output(place.out.topic, 0, None, bytes(9 << 20))


def too_large_for_the_broker(place: Leased) -> Output:
    return Output(place.small.topic, 0, None, bytes(5_000))


def nowhere(place: Leased) -> Output:
    return Output(place.out.topic, 7, None, b"")


@pytest.mark.parametrize(
    ("bad", "cause"),
    [
        (too_large_for_us, MessageSizeTooLargeError),
        (too_large_for_the_broker, KafkaError),
        (nowhere, LookupError),
    ],
)
async def test_one_refused_record_voids_all(
    place: Leased, bad: Callable[[Leased], Output], cause: type[Exception]
) -> None:
    """Case KQ-19: a commit does not look at what failed before it, so the sends are looked at."""
    lease, _ = await place.owner()

    def build() -> Transaction:
        good = place.step("good", 1)
        return Transaction([*good.outputs, bad(place)], good.offsets)

    with pytest.raises(LeaseVoid) as refusal:
        await lease.transact(build)
    assert isinstance(refusal.value.__cause__, cause)
    second, seen = await place.owner()
    assert seen == []
    await second.transact(lambda: place.step("one", 1))
    await place.becomes_visible(b"one")


@pytest.mark.parametrize(
    "where", ["begin_transaction", "send_batch", "send_offsets_to_transaction", "commit_transaction"]
)
async def test_a_cancel_in_the_middle_voids(place: Leased, where: str) -> None:
    lease, _ = await place.owner()
    gate = Gate(lease, where)
    task = asyncio.create_task(lease.transact(lambda: place.step("half", 1)))
    await gate.reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert lease.void
    second, seen = await place.owner()
    assert seen == []
    await second.transact(lambda: place.step("one", 1))
    await place.becomes_visible(b"one")


async def test_a_cancel_while_waiting_for_its_turn_leaves_the_lease_alone(place: Leased) -> None:
    lease, _ = await place.owner()
    gate = Gate(lease, "commit_transaction")
    first = asyncio.create_task(lease.transact(lambda: place.step("one", 1)))
    await gate.reached.wait()
    waiting = asyncio.create_task(lease.transact(lambda: place.step("never", 2)))
    await asyncio.sleep(0)
    waiting.cancel()
    gate.open()
    await first
    assert lease.is_open
    await lease.transact(lambda: place.step("two", 2))
    await place.becomes_visible(b"one", b"two")


async def test_our_own_deadline_voids(place: Leased) -> None:
    lease, _ = await place.owner(later(place.kafka, transaction_deadline_ms=500))
    Gate(lease, "commit_transaction")
    with pytest.raises(LeaseVoid) as refusal:
        await lease.transact(lambda: place.step("slow", 1))
    assert isinstance(refusal.value.__cause__, TimeoutError)
    _, seen = await place.owner()
    assert seen == []


@pytest.mark.parametrize("competitor", [False, True])
async def test_a_time_out_at_the_broker_voids_and_a_new_lease_goes_on(place: Leased, competitor: bool) -> None:
    """Case AIO-11: it looks just like a fence, and both are treated alike."""
    slow = later(place.kafka, transaction_timeout_ms=1_000, transaction_deadline_ms=60_000)
    lease, _ = await place.owner(slow)
    before = await place.last_stable_offset()
    gate = Gate(lease, "commit_transaction")
    held = asyncio.create_task(lease.transact(lambda: place.step("slow", 1)))
    held.add_done_callback(lambda _: gate.reached.set())  # a slow machine may meet the time-out before its commit
    await gate.reached.wait()
    if competitor:
        rival, _ = await place.owner()
        await rival.transact(lambda: place.step("rival", 1))

    async def decided() -> bool:
        return held.done() or await place.last_stable_offset() > before

    await until(decided)
    gate.open()
    with pytest.raises(LeaseVoid):
        await held
    again, seen = await place.owner()
    assert seen == ([b"rival"] if competitor else [])
    await again.transact(lambda: place.step("again", 2))
    await place.becomes_visible(*seen, b"again")
    await place.offset_becomes(2)


async def test_close_lets_the_transaction_under_way_end(place: Leased) -> None:
    lease, _ = await place.owner()
    gate = Gate(lease, "commit_transaction")
    pending = asyncio.create_task(lease.transact(lambda: place.step("last", 1)))
    await gate.reached.wait()
    queued = asyncio.create_task(lease.transact(lambda: place.step("never", 2)))
    closing = asyncio.create_task(lease.close())
    await asyncio.sleep(0)
    assert not lease.is_open
    gate.open()
    await pending
    await closing
    with pytest.raises(LeaseVoid):
        await queued
    await place.becomes_visible(b"last")


async def test_what_fold_raises_passes_and_voids(place: Leased) -> None:
    first, _ = await place.owner()
    await first.transact(lambda: place.step("one", 1))
    lease = place.lease()

    def fold(_: Record) -> None:
        raise ValueError("the cursor lies above the log")

    with pytest.raises(ValueError, match="the cursor lies above the log"):
        await lease.open(fold)
    assert lease.void


async def test_close_ends_an_opening(place: Leased) -> None:
    first, _ = await place.owner()
    await first.transact(lambda: place.step("one", 1))
    lease = place.lease()
    closing: list[asyncio.Task[None]] = []

    def fold(_: Record) -> None:
        closing.append(asyncio.create_task(lease.close()))

    with pytest.raises(LeaseVoid):
        await lease.open(fold)
    await asyncio.gather(*closing)
    assert lease.void


async def test_a_cancelled_opening_is_void(place: Leased) -> None:
    lease = place.lease()
    opening = asyncio.create_task(lease.open(lambda _: None))
    await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert lease.void


async def test_a_log_that_does_not_exist_is_no_empty_log(place: Leased) -> None:
    impatient = later(place.kafka, request_timeout_ms=3_000)
    missing = TopicPartition(f"{place.log.topic}-missing", 0)
    lease = Lease(impatient, transactional_id=place.transactional_id, group=place.group, log=[missing])
    place.leases.append(lease)
    with pytest.raises(LeaseVoid, match="create the topics first"):
        await lease.open(lambda _: None)


async def test_the_dead_sender_of_a_producer_is_noticed_at_once(place: Leased) -> None:
    """Case AIO-08."""
    lease, _ = await place.owner()
    sender = lease._producer._sender  # type: ignore[union-attr]
    sender.sender_task.cancel()
    await asyncio.wait({sender.sender_task})
    sender._message_accumulator.fail_all(KafkaError("the sender has died"))
    with pytest.raises(LeaseVoid):
        await lease.transact(lambda: place.step("lost", 1))
    _, seen = await place.owner()
    assert seen == []


async def test_a_lease_is_given_up_in_bounded_time_where_no_answer_comes(place: Leased) -> None:
    """Case AIO-20 (b): the library's own stop would wait for its unsent records for ever."""
    lease, _ = await place.owner()
    await lease.transact(lambda: place.step("one", 1))
    lease._kafka = later(place.kafka, transaction_deadline_ms=500, close_timeout_ms=200)

    async def silence(*_: Any, **__: Any) -> None:
        await asyncio.Event().wait()

    lease._producer.client.send = silence  # type: ignore[union-attr]
    with pytest.raises(LeaseVoid):
        await lease.transact(lambda: place.step("lost", 2))
    async with asyncio.timeout(PATIENCE_SECONDS):
        await lease.close()
    _, seen = await place.owner()
    assert seen == [b"one"]
