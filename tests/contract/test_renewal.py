"""A sleeping group's offsets on a real broker: kept alive, and never moved.

What the broker remembers is read from its own log: it forgets a group's offsets some time after the group's last change
of state, which stands there as a date.
"""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import NamedTuple

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import IllegalStateError, KafkaError
from aiokafka.structs import OffsetAndMetadata

from schemas.topics import Catalogue
from streams.kafka.clients import admin_client, group_consumer, log_consumer, stop_client
from streams.kafka.groups import members_of
from streams.kafka.lag import committed_offsets
from streams.kafka.log import read_log
from streams.kafka.renewal import Renewals, renew
from streams.kafka.settings import KafkaSettings
from tests.integration.gpu_pool import eventually
from tests.kafka import POOL

PROTOCOLS = ("roundrobin",)
_OFFSETS = "__consumer_offsets"
_COMMITTED, _GROUP = (0, 1), 2  # what a record of it is of, by its key's version


@pytest.fixture(scope="module")
def kafka(kafka: KafkaSettings) -> KafkaSettings:
    """Nobody dies here, and a member that a busy machine holds up must not seem to have."""
    return kafka.model_copy(update={"session_timeout_ms": 60_000})


class Remembered(NamedTuple):
    commits: int
    changed_ms: int


async def remembered(kafka: KafkaSettings, group: str) -> Remembered:
    """How many commits the broker has written for the group, and when it says that the group last changed."""
    reader = log_consumer(kafka)
    await reader.start()
    await reader.end_offsets([TopicPartition(_OFFSETS, 0)])
    places = [TopicPartition(_OFFSETS, n) for n in sorted(reader.partitions_for_topic(_OFFSETS) or ())]
    await stop_client(reader, 5)
    commits = changed = 0
    async with aclosing(read_log(kafka, places)) as records:
        async for record in records:
            version, length = struct.unpack_from(">hh", record.key or b"")
            if (record.key or b"")[4 : 4 + length].decode() != group or record.value is None:
                continue
            if version in _COMMITTED:
                commits += 1
            elif version == _GROUP:
                changed = _changed_ms(record.value)
    return Remembered(commits, changed)


def _changed_ms(value: bytes) -> int:
    """version, protocol type, generation, protocol, leader, and then the date of the group's state."""
    at = 2
    for kind in ("text", "generation", "text", "text"):
        if kind == "generation":
            at += 4
        else:
            (length,) = struct.unpack_from(">h", value, at)
            at += 2 + max(0, length)
    (date,) = struct.unpack_from(">q", value, at)
    return int(date)


async def committed(kafka: KafkaSettings, group: str) -> dict[int, int]:
    admin = admin_client(kafka)
    await admin.start()
    try:
        return {at.partition: each.offset for at, each in (await committed_offsets(admin, group)).items()}
    finally:
        await admin.close()


@asynccontextmanager
async def consumer(kafka: KafkaSettings, catalogue: Catalogue) -> AsyncIterator[AIOKafkaConsumer]:
    """A member of the pool's group with all partitions of a lane."""
    made = group_consumer(kafka, catalogue.gpu_group(POOL))
    made.subscribe([catalogue.work(POOL, "bulk")])
    await made.start()
    try:
        await eventually(lambda: len(made.assignment()) == 4, "it has every partition")
        yield made
    finally:
        await stop_client(made, 60)


async def commit(member: AIOKafkaConsumer, offset: int) -> None:
    """Again where somebody joins at this moment."""

    async def done() -> bool:
        try:
            await member.commit({at: OffsetAndMetadata(offset, "") for at in member.assignment()})
        except (KafkaError, IllegalStateError):
            return False
        return len(member.assignment()) == 4

    await eventually(done, f"{offset} is committed")


async def asleep(kafka: KafkaSettings, catalogue: Catalogue, offset: int = 3) -> str:
    """A group that committed, and has no members any more."""
    group = catalogue.gpu_group(POOL)
    async with consumer(kafka, catalogue) as member:
        await commit(member, offset)
    admin = admin_client(kafka)
    await admin.start()

    async def empty() -> bool:
        return not (await members_of(admin, [group]))[group]

    try:
        await eventually(empty, "its member has left")
    finally:
        await admin.close()
    return group


async def test_a_sleeping_group_is_dated_anew_and_nothing_is_committed(
    kafka: KafkaSettings, catalogue: Catalogue
) -> None:
    group = await asleep(kafka, catalogue)
    before = await remembered(kafka, group)
    assert before.commits > 0
    assert await renew(kafka, group, PROTOCOLS) == "renewed"
    after = await remembered(kafka, group)
    assert after.changed_ms > before.changed_ms
    assert after.commits == before.commits
    assert await committed(kafka, group) == dict.fromkeys(range(4), 3)


async def test_a_group_in_use_is_left_alone(kafka: KafkaSettings, catalogue: Catalogue) -> None:
    group = catalogue.gpu_group(POOL)
    async with consumer(kafka, catalogue) as member:
        await commit(member, 3)
        before = await remembered(kafka, group)
        assert await renew(kafka, group, PROTOCOLS) == "in use"
        assert await remembered(kafka, group) == before


async def test_a_group_that_never_committed_is_left_alone(kafka: KafkaSettings, catalogue: Catalogue) -> None:
    assert await renew(kafka, catalogue.gpu_group(POOL), PROTOCOLS) == "nothing committed"


async def test_a_consumer_that_joins_meanwhile_gets_everything_and_its_offsets_stay(
    kafka: KafkaSettings, catalogue: Catalogue
) -> None:
    """Renewed again and again while consumers come, commit and go: what they committed last is what is committed."""
    group = await asleep(kafka, catalogue)
    done: list[str] = []

    async def keep_renewing() -> None:
        while True:
            done.append(await renew(kafka, group, PROTOCOLS))

    renewing = asyncio.create_task(keep_renewing())
    for offset in (4, 5, 6):
        async with consumer(kafka, catalogue) as member:
            await commit(member, offset)
        done.clear()
        await eventually(lambda: "renewed" in done or renewing.done(), "it is renewed")
        assert await committed(kafka, group) == dict.fromkeys(range(4), offset)
    renewing.cancel()
    await asyncio.wait({renewing})
    assert renewing.cancelled()
    assert await committed(kafka, group) == dict.fromkeys(range(4), 6)


async def test_what_cannot_be_renewed_keeps_nothing_else_from_it(kafka: KafkaSettings, catalogue: Catalogue) -> None:
    group = await asleep(kafka, catalogue)
    told: list[tuple[str, str]] = []
    renewals = Renewals(
        kafka, [group, f"{group}-new"], PROTOCOLS, seconds=60, renewed=lambda name, how: told.append((name, how))
    )
    assert await renewals.once() == {group: "renewed", f"{group}-new": "nothing committed"} == dict(told)
    away = Renewals(
        kafka.model_copy(update={"bootstrap_servers": "127.0.0.1:1"}), [group, f"{group}-new"], PROTOCOLS, seconds=60
    )
    assert await away.once() == {group: "failed", f"{group}-new": "failed"}
