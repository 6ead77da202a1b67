"""Admission in a test: a small world, services in this process, and readers that are not ours (confluent-kafka)."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from admission.settings import AdmissionLimits
from admission.world import World
from schemas.catalogue import ConfigCatalogue
from schemas.config_file import ConfigFile
from schemas.partition import partition_of
from schemas.tenants import Quota, Tenants
from schemas.topics import Catalogue
from streams.intake.choice import make_intake
from streams.kafka.settings import KafkaSettings
from streams.service import AdmissionService
from streams.settings import AdmissionServiceSettings
from streams.tracing import OFF, Tracing
from tests.kafka import POOL

FREE = Quota(per_second=10_000, burst=100_000)


def small_world(catalogue: Catalogue, *, tenants: Mapping[str, Quota] | None = None, pool: str = POOL) -> World:
    """Two configs of one pool; every tenant may do what it likes unless `tenants` says less."""
    files = [
        ConfigFile.model_validate(
            {
                "name": name,
                "channels": {"stable": 1},
                "versions": {
                    1: {
                        "family": "sd15",
                        "model": {"name": "tiny", "digest": "sha256:" + "0" * 64},
                        "steps": steps,
                        "guidance_scale": 5.0,
                        "width": 64,
                        "height": 64,
                        "pool": pool,
                        "price": {"gpu_seconds": 0.2, "vram_bytes": 1 << 20},
                    }
                },
            }
        )
        for name, steps in (("sketch", 4), ("painting", 20))
    ]
    return World(
        catalogue=catalogue,
        configs=ConfigCatalogue(files),
        tenants=Tenants(default=FREE, tenants=dict(tenants or {})),
        work_partitions={},
        limits=AdmissionLimits(),
    )


def request(tenant: str, request_id: str, prompt: str = "a kiln at night", **fields: Any) -> bytes:
    body = {"tenant": tenant, "request_id": request_id, "prompt": prompt, "config": {"name": "sketch"}, **fields}
    return json.dumps(body, ensure_ascii=False).encode()


@dataclass(frozen=True)
class Running:
    """A service of this process, for as long as the test wants it."""

    service: AdmissionService
    task: asyncio.Task[None]
    stop: asyncio.Event

    async def end(self) -> None:
        """As SIGTERM does."""
        self.stop.set()
        await self.task

    async def kill(self) -> None:
        """Its owners are cancelled wherever they are, in a transaction or an emission: nothing is said farewell to."""
        if self.service._owners is not None:
            for task in self.service._owners._tasks.values():
                task.cancel()
        self.task.cancel()
        await asyncio.wait({self.task})


def start(
    kafka: KafkaSettings, world: World, intake: Literal["faust", "plain"], tracing: Tracing = OFF, **settings: Any
) -> Running:
    given: dict[str, Any] = {"health_port": 0, "intake": intake, "idle_seconds": 0.1, "refresh_seconds": 0.5}
    service = AdmissionService(
        AdmissionServiceSettings(**given | settings),
        kafka,
        world,
        make_intake(intake, kafka, group=world.catalogue.admission_group, topic=world.catalogue.requests),
        tracing,
    )
    stop = asyncio.Event()
    return Running(service, asyncio.create_task(service.run(stop)), stop)


@asynccontextmanager
async def running(
    kafka: KafkaSettings, world: World, intake: Literal["faust", "plain"], tracing: Tracing = OFF, **settings: Any
) -> AsyncIterator[AdmissionService]:
    one = start(kafka, world, intake, tracing, **settings)
    try:
        yield one.service
    finally:
        await one.end()


async def eventually(condition: Any, *, seconds: float = 180.0, what: str = "") -> Any:
    """The first true value of `condition()`, awaited where it must be. Fails after `seconds`."""
    deadline = asyncio.get_running_loop().time() + seconds
    while True:
        value = condition()
        if asyncio.iscoroutine(value):
            value = await value
        if value:
            return value
        assert asyncio.get_running_loop().time() < deadline, f"waited {seconds:.0f} s for {what or condition}"
        await asyncio.sleep(0.05)


def produce(
    kafka: KafkaSettings, topic: str, records: Iterable[tuple[bytes | None, bytes | None]], **options: Any
) -> int:
    """Through librdkafka, whose default partitioner is CRC32, not Kafka's murmur2. Returns how many."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "linger.ms": 5, **options})
    failures: list[Any] = []
    number = 0
    for key, value in records:
        producer.produce(topic, value, key, on_delivery=lambda error, _: failures.append(error) if error else None)
        producer.poll(0)
        number += 1
    assert producer.flush(30) == 0
    assert not failures, failures
    return number


def send(kafka: KafkaSettings, catalogue: Catalogue, tenant: str, *ids: str, **fields: Any) -> None:
    """Requests that differ in nothing else, to the tenant's partition: as a producer does that hashes as Kafka does."""
    records = [(tenant.encode(), request(tenant, each, **fields)) for each in ids]
    produce(kafka, catalogue.requests, records, partitioner="murmur2_random")


def tenant_of(catalogue: Catalogue, partition: int) -> str:
    """One whose home it is."""
    names = (f"tenant{number}" for number in range(100))
    return next(name for name in names if partition_of(name.encode(), catalogue.requests_partitions) == partition)


@dataclass(frozen=True)
class Seen:
    """A committed record, as an independent reader sees it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes]]

    def json(self) -> dict[str, Any]:
        body = json.loads(self.value or b"")
        assert isinstance(body, dict)
        return body


def committed(kafka: KafkaSettings, topic: str, partitions: int) -> list[Seen]:
    """Every committed record of a topic, by confluent-kafka, to the end that is there now.

    What is written by then is waited for until it is decided: the markers of a transaction do not stand in all of its
    partitions at once. One that nobody decides is left out: its owner was killed, and has no successor yet.
    """
    undecided_seconds = _seconds_for_a_decision()
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": "reader-that-never-joins",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
        }
    )
    seen: list[Seen] = []
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        written: dict[int, int] = {}
        at_end: set[int] = set()
        while len(at_end) < partitions:
            message = consumer.poll(60 if len(written) < partitions else undecided_seconds)
            if message is None:
                assert len(written) == partitions, f"{topic} did not end"
                break
            if message.error():
                assert message.error().name() == "_PARTITION_EOF", message.error()
                at = TopicPartition(topic, message.partition())
                _, high_watermark = consumer.get_watermark_offsets(at, cached=True)
                if message.offset() >= written.setdefault(at.partition, high_watermark):
                    at_end.add(at.partition)
            else:
                seen.append(
                    Seen(message.partition(), message.offset(), message.key(), message.value(), message.headers() or ())
                )
    finally:
        consumer.close()
    return seen


def _seconds_for_a_decision() -> float:
    """A test that reads within its event loop holds up what would decide, and the signs of life of a service in it."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return 10.0
    return 1.0


def work_of(kafka: KafkaSettings, catalogue: Catalogue) -> list[tuple[str, Seen]]:
    """(topic, record) of every work topic."""
    return [
        (topic, record)
        for pool, declared in catalogue.pools.items()
        for lane in ("interactive", "standard", "bulk")
        for topic in [catalogue.work(pool, lane)]
        for record in committed(kafka, topic, declared.partitions)
    ]


def decided_work(decision: Mapping[str, Any]) -> bytes:
    """The work of a decision read as JSON, as its text stands in the record."""
    return json.dumps(decision["work"], separators=(",", ":"), ensure_ascii=False).encode()


def lag(kafka: KafkaSettings, catalogue: Catalogue) -> dict[int, int]:
    """Partition of requests -> records behind its high watermark that admission's group has not committed; without a
    commit, all of them. What KEDA would see, by confluent-kafka."""
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": catalogue.admission_group})
    try:
        asked = [TopicPartition(catalogue.requests, number) for number in range(catalogue.requests_partitions)]
        lags = {}
        for at in consumer.committed(asked, timeout=30):
            low, high = consumer.get_watermark_offsets(TopicPartition(at.topic, at.partition), timeout=30)
            lags[at.partition] = high - (at.offset if at.offset >= 0 else low)
        return lags
    finally:
        consumer.close()


async def drained(kafka: KafkaSettings, catalogue: Catalogue, *, seconds: float = 180.0) -> None:
    """Wait until admission's lag is 0 on every partition."""

    async def empty() -> bool:
        try:
            return not any((await asyncio.to_thread(lag, kafka, catalogue)).values())
        except KafkaException as error:
            if error.args[0].name() not in {"NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "NOT_LEADER_FOR_PARTITION"}:
                raise
            return False  # a new broker is still electing the group's coordinator, or begins to lead a new topic

    await eventually(empty, seconds=seconds, what="lag 0")
