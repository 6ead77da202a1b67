"""One suite over every intake: whatever it loses, repeats or brings late, each name is decided once.

The producer is librdkafka with its own partitioner, the reader is confluent-kafka: neither is ours.
"""

import asyncio
import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Literal

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from admission.world import World
from schemas.dead_letter import HEADER_OFFSET, HEADER_PARTITION, HEADER_REASON
from schemas.tenants import Quota
from schemas.topics import Catalogue
from streams.batch import HEADER_HOME
from streams.errors import IntakeFailed
from streams.kafka.errors import LogUnavailable
from streams.kafka.settings import KafkaSettings
from tests.admission import (
    committed,
    decided_work,
    drained,
    eventually,
    lag,
    produce,
    request,
    running,
    small_world,
    start,
    work_of,
)

IntakeName = Literal["faust", "plain"]
TENANTS = tuple(f"tenant-{number}" for number in range(5))
BURST = 5


@pytest.fixture(params=["faust", "plain"])
def intake(request: pytest.FixtureRequest) -> IntakeName:
    name: IntakeName = request.param
    return name


@pytest.fixture
def world(catalogue: Catalogue) -> World:
    return small_world(catalogue, tenants={"greedy": Quota(per_second=0.001, burst=BURST)})


@dataclass
class Sent:
    """What was committed to requests, and so what must come of it."""

    names: set[tuple[str, str]] = field(default_factory=set)
    aborted: set[tuple[str, str]] = field(default_factory=set)
    dead: Counter[tuple[str, bytes | None]] = field(default_factory=Counter)

    def storm(self, kafka: KafkaSettings, topic: str, wave: str, number: int) -> None:
        """About `number` requests of every kind; `wave` makes their ids new."""
        bodies = [(TENANTS[n % len(TENANTS)], f"{wave}-{n}") for n in range(number * 3 // 4)]
        bodies += [("greedy", f"{wave}-{n}") for n in range(number // 8)]
        random.Random(wave).shuffle(bodies)
        records: list[tuple[bytes | None, bytes | None]] = [
            (tenant.encode(), request(tenant, name, f"prompt of {name}")) for tenant, name in bodies
        ]
        produce(kafka, topic, records)
        self.names |= set(bodies)
        produce(kafka, topic, records[:: max(1, number // 10)])  # repeats: silent and free

        tenant, name = bodies[0]
        conflict = request(tenant, name, "another prompt")
        garbage = (
            b"",
            b"\xff\xfe not JSON",
            b'{"tenant": "a',
            b"[" * 100_000,
            None,
            None,
        )  # cases FST-04, KQ-01, ADM-08
        produce(kafka, topic, [(tenant.encode(), conflict), *((b"key", each) for each in garbage)])
        self.dead["conflicting_duplicate", conflict] += 1
        self.dead.update(("malformed", each) for each in garbage)

    def transactions(self, kafka: KafkaSettings, topic: str, wave: str, number: int) -> None:
        """One record a transaction, every other aborted (cases FST-04, KQ-16)."""
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": f"{topic}-{wave}"})
        producer.init_transactions(30)
        for n in range(number):
            name = (TENANTS[n % len(TENANTS)], f"{wave}-transaction-{n}")
            producer.begin_transaction()
            producer.produce(topic, request(*name), name[0].encode())
            producer.flush(30)
            if n % 2:
                producer.abort_transaction(30)
                self.aborted.add(name)
            else:
                producer.commit_transaction(30)
                self.names.add(name)


def check(kafka: KafkaSettings, catalogue: Catalogue, sent: Sent) -> None:
    """Every name one decision; work exactly the accepted; every rejection and every dead letter once."""
    decisions = [record.json() for record in committed(kafka, catalogue.decisions, catalogue.requests_partitions)]
    decided = Counter((each["tenant"], each["request_id"]) for each in decisions)
    assert set(decided) == sent.names
    assert max(decided.values()) == 1

    accepted = {each["job_id"]: each for each in decisions if each["verdict"] == "accepted"}
    work = defaultdict(set)
    for topic, record in work_of(kafka, catalogue):
        work[(record.key or b"").decode()].add((topic, record.partition, record.value, tuple(record.headers)))
    assert set(work) == set(accepted)
    for job_id, copies in work.items():
        ((topic, partition, value, _),) = copies  # however often produced, it is one record
        route = accepted[job_id]["route"]
        assert (topic, partition) == (catalogue.work(route["pool"], route["lane"]), route["partition"])
        assert value == decided_work(accepted[job_id])

    results = [record.json() for record in committed(kafka, catalogue.results, catalogue.requests_partitions)]
    rejected = Counter((each["tenant"], each["request_id"], each["code"]) for each in results)
    assert rejected == Counter(
        (each["tenant"], each["request_id"], each["code"]) for each in decisions if each["verdict"] == "rejected"
    )

    dead = committed(kafka, catalogue.dead_letters, 1)
    places = Counter((dict(each.headers)[HEADER_PARTITION], dict(each.headers)[HEADER_OFFSET]) for each in dead)
    assert not places or max(places.values()) == 1
    assert Counter((dict(each.headers)[HEADER_REASON].decode(), each.value) for each in dead) == sent.dead

    greedy = [each for each in accepted.values() if each["tenant"] == "greedy"]
    assert len(greedy) <= BURST


async def end_well(kafka: KafkaSettings, catalogue: Catalogue, sent: Sent) -> None:
    """Lag alone does not tell: after a reset to the end it reads 0 before anything was decided."""

    async def decided() -> bool:
        seen = await asyncio.to_thread(committed, kafka, catalogue.decisions, catalogue.requests_partitions)
        dead = await asyncio.to_thread(committed, kafka, catalogue.dead_letters, 1)
        return len({each.key for each in seen}) == len(sent.names) and len(dead) == sent.dead.total()

    await eventually(decided, what="every decision")
    await drained(kafka, catalogue)
    await asyncio.to_thread(check, kafka, catalogue, sent)


async def test_every_kind_of_request_ends_once(
    kafka: KafkaSettings, catalogue: Catalogue, world: World, intake: IntakeName
) -> None:
    # cases FST-04, FST-14, KQ-01, KQ-02, KQ-13, KQ-16
    sent = Sent()
    await asyncio.to_thread(sent.storm, kafka, catalogue.requests, "before", 100)
    async with running(kafka, world, intake) as service:
        await asyncio.to_thread(sent.transactions, kafka, catalogue.requests, "inside", 20)
        await asyncio.to_thread(sent.storm, kafka, catalogue.requests, "after", 100)
        await end_well(kafka, catalogue, sent)
        await eventually(lambda: service.not_ready() is None)
        assert service.not_alive() is None
    home = Counter(
        request["request_id"]
        for record in committed(kafka, catalogue.requests, catalogue.requests_partitions)
        if HEADER_HOME in dict(record.headers)
        for request in [record.json()]
    )
    assert home, "librdkafka's partitioner is not Kafka's, so some must have been sent home"
    assert set(lag(kafka, catalogue).values()) == {0}


async def test_instances_join_and_leave(
    kafka: KafkaSettings, catalogue: Catalogue, world: World, intake: IntakeName
) -> None:
    # cases FST-11, FST-13, FST-16, AIO-16, AIO-17: each decision once, and work that is produced again is the same
    sent = Sent()
    first = start(kafka, world, intake)
    await asyncio.to_thread(sent.storm, kafka, catalogue.requests, "one", 60)
    second = start(kafka, world, intake)
    await asyncio.to_thread(sent.storm, kafka, catalogue.requests, "two", 60)
    third = start(kafka, world, intake)  # more members than partitions: one of them idles
    await asyncio.to_thread(sent.storm, kafka, catalogue.requests, "three", 60)
    await eventually(lambda: second.service.not_ready() is None and third.service.not_ready() is None)
    await first.end()
    await asyncio.to_thread(sent.storm, kafka, catalogue.requests, "four", 40)
    await second.end()
    await end_well(kafka, catalogue, sent)
    await third.end()


async def test_the_groups_offsets_are_not_believed(
    kafka: KafkaSettings, catalogue: Catalogue, world: World, intake: IntakeName
) -> None:
    sent = Sent()
    async with running(kafka, world, intake):
        await asyncio.to_thread(sent.storm, kafka, catalogue.requests, "one", 60)
        await drained(kafka, catalogue)
    for wave, to in (("earliest", 0), ("end", None), ("past", 1_000_000)):
        await asyncio.to_thread(sent.storm, kafka, catalogue.requests, wave, 40)
        await asyncio.to_thread(reset_group, kafka, catalogue, to)
        async with running(kafka, world, intake):
            await end_well(kafka, catalogue, sent)


async def test_killed_at_any_moment(
    kafka: KafkaSettings, catalogue: Catalogue, world: World, intake: IntakeName
) -> None:
    # cases FST-01, FST-02, FST-14, AIO-08
    sent = Sent()
    moments = random.Random(intake)
    for life in range(5):
        one = start(kafka, world, intake, batch_max=10)
        await asyncio.to_thread(sent.storm, kafka, catalogue.requests, f"life-{life}", 40)
        await eventually(lambda one=one: one.service.not_ready() is None)
        await asyncio.sleep(moments.uniform(0, 0.3))
        await one.kill()
    async with running(kafka, world, intake):
        await end_well(kafka, catalogue, sent)


async def test_an_intake_that_dies_ends_the_service(
    kafka: KafkaSettings, catalogue: Catalogue, world: World, intake: IntakeName, monkeypatch: pytest.MonkeyPatch
) -> None:
    # cases AIO-02, FST-07: nobody stays a member that takes nothing
    sent = Sent()
    one = start(kafka, world, intake)
    await eventually(lambda: one.service.not_ready() is None)
    if intake == "plain":

        async def broken(*_: object) -> dict[str, object]:
            raise LogUnavailable("no broker")

        monkeypatch.setattr("streams.intake.plain.poll", broken)
    else:
        await one.service._intake._app.crash(RuntimeError("no broker"))  # type: ignore[attr-defined]
    with pytest.raises((LogUnavailable, IntakeFailed), match="no broker"):
        await asyncio.wait_for(one.task, 60)
    monkeypatch.undo()
    await asyncio.to_thread(sent.storm, kafka, catalogue.requests, "one", 30)
    async with running(kafka, world, intake):
        await end_well(kafka, catalogue, sent)


def reset_group(kafka: KafkaSettings, catalogue: Catalogue, to: int | None) -> None:
    """Set the group's offsets to `to`, or to the end, and prove it: the client reports errors without raising them."""
    asked = []
    for number, behind in lag(kafka, catalogue).items():
        end = committed_offset(kafka, catalogue, number) + behind
        asked.append(TopicPartition(catalogue.requests, number, end if to is None else to))
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    group = ConsumerGroupTopicPartitions(catalogue.admission_group, asked)
    (future,) = admin.alter_consumer_group_offsets([group]).values()
    assert not [at for at in future.result(30).topic_partitions if at.error]
    for at in asked:
        assert committed_offset(kafka, catalogue, at.partition) == at.offset


def committed_offset(kafka: KafkaSettings, catalogue: Catalogue, partition: int) -> int:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    group = ConsumerGroupTopicPartitions(catalogue.admission_group, [TopicPartition(catalogue.requests, partition)])
    (future,) = admin.list_consumer_group_offsets([group]).values()
    (at,) = future.result(30).topic_partitions
    assert not at.error
    offset: int = at.offset
    return offset
