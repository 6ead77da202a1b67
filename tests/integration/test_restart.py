"""Admission starts again: killed while opening, with a deep backlog, its logs compacted, expired, truncated.

It is ready soon, or says what is missing and stops; it never goes on as if nothing had been.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.admin import RecordsToDelete
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from admission.errors import StateRefused
from admission.settings import AdmissionLimits
from admission.world import World
from schemas.deployment import DeploymentSettings
from schemas.partition import partition_of
from schemas.tenancy import CURSOR_KEY, JOB_PREFIX, Cursor
from schemas.tenants import Quota
from schemas.topics import Catalogue
from streams.kafka.admin import create_topics
from streams.kafka.clients import admin_client
from streams.kafka.errors import LogTruncated
from streams.kafka.settings import KafkaSettings
from streams.world import load_world
from tests.admission import Seen, committed, drained, eventually, running, small_world, start
from tests.integration.restarts import POINTS, TENANT, restart, send

HOME = partition_of(TENANT.encode(), 2)


@pytest.fixture
def environment(kafka_env: dict[str, str], prefix: str, tmp_path: Path) -> dict[str, str]:
    """A deployment in files whose tenants may do what they like, however much waits."""
    pools, tenants = tmp_path / "pools.yaml", tmp_path / "tenants.yaml"
    pools.write_text(
        "pools: {default: {gpu_product: CPU, vram_bytes: 8589934592, price_usd_per_hour: 0,"
        " replicas_max: 2, partitions: 4, refuse_wait_seconds: 1000000}}"
    )
    tenants.write_text("default: {per_second: 10000, burst: 1000000}")
    return kafka_env | {
        "KILN_TOPICS_PREFIX": prefix,
        "KILN_TOPICS_REQUESTS_PARTITIONS": "2",
        "KILN_POOLS": str(pools),
        "KILN_TENANTS": str(tenants),
        "KILN_ADMISSION_SERVICE_HEALTH_PORT": "0",
        "KILN_ADMISSION_SERVICE_INTAKE": "plain",
        # A successor waits for so long until the group lets go of who was killed.
        "KAFKA_SESSION_TIMEOUT_MS": "1000",
        "KAFKA_HEARTBEAT_INTERVAL_MS": "300",
    }


@pytest.fixture
async def declared(kafka: KafkaSettings, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> World:
    """What the child declares, too."""
    for name, value in environment.items():
        if name.startswith("KILN_"):
            monkeypatch.setenv(name, value)
    world = load_world(DeploymentSettings(), AdmissionLimits())
    await create_topics(kafka, world.catalogue)
    return world


async def test_killed_at_each_point_of_its_opening_it_decides_everything_once(
    kafka: KafkaSettings, declared: World, environment: dict[str, str]
) -> None:
    await restart(kafka, declared, environment, names=1000, waiting=1000, points=POINTS)


def world_of(catalogue: Catalogue, **quota: Any) -> World:
    return small_world(catalogue, tenants={TENANT: Quota(**{"per_second": 0.0001, "burst": 20} | quota)})


async def read(kafka: KafkaSettings, topic: str) -> list[Seen]:
    return await asyncio.to_thread(committed, kafka, topic, 2)


async def decided(kafka: KafkaSettings, catalogue: Catalogue) -> dict[str, str]:
    """Request id to what became of it; fails where something was decided twice."""
    decisions = [each.json() for each in await read(kafka, catalogue.decisions)]
    became = {each["request_id"]: each.get("code") or each["verdict"] for each in decisions}
    assert len(became) == len(decisions)
    return became


@asynccontextmanager
async def eager_cleaner(kafka: KafkaSettings, topic: str) -> AsyncIterator[None]:
    """A broker that compacts what it can at once, and a topic of which it can almost all."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})

    def alter(kind: ResourceType, name: str, how: AlterConfigOpType, **config: str | None) -> None:
        entries = [
            ConfigEntry(key.replace("_", "."), value, incremental_operation=how) for key, value in config.items()
        ]
        (done,) = admin.incremental_alter_configs([ConfigResource(kind, name, incremental_configs=entries)]).values()
        done.result(30)

    set_, delete = AlterConfigOpType.SET, AlterConfigOpType.DELETE
    alter(ResourceType.TOPIC, topic, set_, segment_ms="1", min_cleanable_dirty_ratio="0.01", delete_retention_ms="0")
    brokers = [str(broker) for broker in (await asyncio.to_thread(admin.list_topics, timeout=30)).brokers]
    for broker in brokers:
        alter(ResourceType.BROKER, broker, set_, log_cleaner_backoff_ms="100")
    try:
        yield
    finally:
        for broker in brokers:
            alter(ResourceType.BROKER, broker, delete, log_cleaner_backoff_ms=None)


async def test_from_compacted_tenants_it_knows_what_it_knew(kafka: KafkaSettings, catalogue: Catalogue) -> None:
    world = world_of(catalogue)
    async with running(kafka, world, "plain", batch_max=1):
        send(kafka, catalogue, (f"r{number}" for number in range(25)))
        await drained(kafka, catalogue)
    before = await read(kafka, catalogue.tenants)
    newest = {(each.partition, each.key): each.value for each in before}
    assert len(before) > len(newest) + 20
    async with eager_cleaner(kafka, catalogue.tenants):

        async def compacted() -> bool:
            # A segment is compacted once another was begun, which takes a record more.
            async with running(kafka, world, "plain"):
                await drained(kafka, catalogue)
            return len(await read(kafka, catalogue.tenants)) < len(newest) + 10

        await eventually(compacted, what="the broker's cleaner")
        async with running(kafka, world, "plain"):
            send(kafka, catalogue, ("r0", "r24", "new"))
            await drained(kafka, catalogue)
    after = {(each.partition, each.key): each.value for each in await read(kafka, catalogue.tenants)}
    jobs = {key: value for key, value in newest.items() if (key[1] or b"").startswith(JOB_PREFIX)}
    assert len(jobs) == 20
    assert {key: after[key] for key in jobs} == jobs
    became = await decided(kafka, catalogue)
    assert became == {
        **{f"r{number}": "accepted" if number < 20 else "rate_limited" for number in range(25)},
        "new": "rate_limited",
    }


async def lose(kafka: KafkaSettings, topic: str, before_offset: int = -1) -> None:
    """As retention does; -1: all of it."""
    admin = admin_client(kafka)
    await admin.start()
    try:
        await admin.delete_records({TopicPartition(topic, HOME): RecordsToDelete(before_offset=before_offset)})
    finally:
        await admin.close()


async def lose_topic(kafka: KafkaSettings, catalogue: Catalogue, topic: str) -> None:
    """It was deleted, and somebody created it again."""
    admin = admin_client(kafka)
    await admin.start()
    try:
        await admin.delete_topics([topic])

        async def gone() -> bool:
            return topic not in await admin.list_topics()

        await eventually(gone)
    finally:
        await admin.close()
    assert await create_topics(kafka, catalogue) == [topic]


async def test_decisions_that_expired_after_their_time_are_not_missed(
    kafka: KafkaSettings, catalogue: Catalogue
) -> None:
    world = world_of(catalogue)
    short = replace(world, limits=AdmissionLimits(dedupe_window_seconds=1))
    async with running(kafka, short, "plain"):
        send(kafka, catalogue, ["r0", "r1"])
        await drained(kafka, catalogue)

        async def over() -> bool:
            """A request a second later, by the broker's clock: the first names are over."""
            send(kafka, catalogue, [f"later{len(await decided(kafka, catalogue))}"])
            await drained(kafka, catalogue)
            stamps = [each.json()["appended_ms"] for each in await read(kafka, catalogue.decisions)]
            return int(stamps[-1]) > int(stamps[1]) + 2000

        await eventually(over, what="the window to pass")
    cursors = [
        each for each in await read(kafka, catalogue.tenants) if each.key == CURSOR_KEY and each.partition == HOME
    ]
    oldest = Cursor.model_validate_json(cursors[-1].value or b"").oldest
    decisions = await read(kafka, catalogue.decisions)
    assert 2 < oldest <= len(decisions)
    await lose(kafka, catalogue.decisions, decisions[oldest - 1].offset)
    async with running(kafka, short, "plain"):
        send(kafka, catalogue, ["new"])
        await drained(kafka, catalogue)
    assert list(await decided(kafka, catalogue)) == [
        *(each.json()["request_id"] for each in decisions[oldest - 1 :]), "new",
    ]  # fmt: skip


@pytest.mark.parametrize("what", ["decisions", "some decisions", "tenants", "waiting requests"])
async def test_what_is_lost_and_needed_is_said_and_nothing_is_decided(
    kafka: KafkaSettings, catalogue: Catalogue, what: str
) -> None:
    world = world_of(catalogue)
    async with running(kafka, world, "plain"):
        send(kafka, catalogue, [f"r{number}" for number in range(5)])
        await drained(kafka, catalogue)
    send(kafka, catalogue, ["waiting"])
    match what:
        case "decisions":
            await lose(kafka, catalogue.decisions)
        case "some decisions":
            await lose(kafka, catalogue.decisions, (await read(kafka, catalogue.decisions))[2].offset)
        case "tenants":
            await lose_topic(kafka, catalogue, catalogue.tenants)
        case "waiting requests":
            await lose(kafka, catalogue.requests)
    before = await read(kafka, catalogue.results), await read(kafka, catalogue.decisions)
    one = start(kafka, world, "plain")
    with pytest.raises((StateRefused, LogTruncated), match=r"bring|raise"):
        await asyncio.wait_for(one.task, 180)
    assert before == (await read(kafka, catalogue.results), await read(kafka, catalogue.decisions))
    # An operator who accepts the loss goes on, and what is still there is decided.
    async with running(kafka, world, "plain", accept_loss=True):
        send(kafka, catalogue, ["new"])
        await drained(kafka, catalogue)
    became = {each.json()["request_id"] for each in await read(kafka, catalogue.decisions)}
    assert {"new"} | ({"waiting"} if what != "waiting requests" else set()) <= became
