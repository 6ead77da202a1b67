"""The catalogue on a real cluster: created once, found as it should be, and each drift told in a sentence."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient

from schemas.topics import Catalogue, TopicSpec
from streams.kafka.admin import TopicsError, check_topics, create_topics
from streams.kafka.settings import KafkaSettings
from tests.kafka import small_catalogue


@dataclass(frozen=True)
class Specs:
    """Any part of a catalogue."""

    some: tuple[TopicSpec, ...]

    def specs(self) -> Iterable[TopicSpec]:
        return self.some


async def test_creates_what_is_missing_and_nothing_twice(kafka: KafkaSettings, prefix: str) -> None:
    catalogue = small_catalogue(prefix)
    names = [spec.name for spec in catalogue.specs()]
    first, *others = catalogue.specs()
    assert await create_topics(kafka, Specs((first,))) == [first.name]
    assert sorted(await create_topics(kafka, catalogue)) == sorted(spec.name for spec in others)
    assert await create_topics(kafka, catalogue) == []
    assert await check_topics(kafka, catalogue) == []

    admin = AIOKafkaAdminClient(**kafka.client_options())
    await admin.start()
    present = [name for name in await admin.list_topics() if name.startswith(f"{prefix}.")]
    await admin.close()
    assert sorted(present) == sorted(names)


async def test_two_that_create_at_once_agree(kafka: KafkaSettings, prefix: str) -> None:
    catalogue = small_catalogue(prefix)
    one, other = await asyncio.gather(create_topics(kafka, catalogue), create_topics(kafka, catalogue))
    assert sorted([*one, *other]) == sorted(spec.name for spec in catalogue.specs())
    assert await check_topics(kafka, catalogue) == []


async def test_a_new_topic_takes_records_at_once(kafka: KafkaSettings, catalogue: Catalogue) -> None:
    producer = AIOKafkaProducer(**kafka.client_options(), acks="all")
    await producer.start()
    try:
        for spec in catalogue.specs():
            for partition in range(spec.partitions):
                await producer.send_and_wait(spec.name, b"{}", key=b"key", partition=partition)
    finally:
        await producer.stop()


async def test_every_drift_is_a_sentence(kafka: KafkaSettings, prefix: str) -> None:
    kept = {"retention.ms": "600000", "cleanup.policy": "compact,delete"}
    was = TopicSpec(f"{prefix}.drifted", 2, kept)
    fine = TopicSpec(f"{prefix}.fine", 1, kept)
    await create_topics(kafka, Specs((was, fine)))

    changed = TopicSpec(was.name, 3, {"retention.ms": "700000", "cleanup.policy": "delete,compact"})
    missing = TopicSpec(f"{prefix}.missing", 1)
    assert await check_topics(kafka, Specs((changed, fine, missing))) == [
        f"{was.name} has 2 partitions and the catalogue says 3; correct the setting, or create the topic anew, "
        "since a changed count sends keys elsewhere.",
        f"{was.name} has retention.ms=600000 and the catalogue says 700000; alter the topic by `kafka-configs.sh "
        f"--alter --topic {was.name} --add-config retention.ms=700000`, or the setting that it comes from.",
        f"{missing.name} is missing; `kiln topics create` creates it.",
    ]
    # Looking created nothing, and creating altered nothing.
    assert len(await check_topics(kafka, Specs((changed, fine, missing)))) == 3
    await create_topics(kafka, Specs((changed,)))
    assert await check_topics(kafka, Specs((was, fine))) == []


async def test_in_sync_replicas_that_can_never_be_reached_are_told(kafka: KafkaSettings, prefix: str) -> None:
    spec = TopicSpec(f"{prefix}.stuck", 1, {"min.insync.replicas": "2"})
    await create_topics(kafka, Specs((spec,)), replication=1)
    assert await check_topics(kafka, Specs((spec,)), replication=1) == [
        f"{spec.name} has min.insync.replicas=2 and 1 replica, so it acknowledges nothing; alter it to 1."
    ]


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [({"config": {"no.such.config": "1"}}, "no.such.config"), ({"partitions": 0}, "artitions")],
)
async def test_what_the_cluster_refuses_names_the_topic(
    kafka: KafkaSettings, prefix: str, wrong: dict[str, object], reason: str
) -> None:
    spec = replace(TopicSpec(f"{prefix}.wrong", 1), **wrong)  # type: ignore[arg-type]
    with pytest.raises(TopicsError, match=f"The cluster refused {prefix}.wrong: .*{reason}"):
        await create_topics(kafka, Specs((spec,)))


def test_from_the_command_line(kafka_env: dict[str, str], prefix: str) -> None:
    def topics(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        script = (
            "import sys; from schemas.errors import CommandError; from streams.commands.topics import app\n"
            "try: app()\nexcept CommandError as error: sys.exit(str(error))"
        )
        environment = os.environ | kafka_env | {"KILN_TOPICS_PREFIX": prefix} | settings
        command = [sys.executable, "-c", script, *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)

    before = topics("check")
    assert before.returncode == 1
    assert f"{prefix}.requests is missing; `kiln topics create` creates it." in before.stderr.splitlines()
    assert topics("create").returncode == 0
    assert topics("create").stdout.startswith("0 created, ")
    after = topics("check")
    assert (after.returncode, after.stdout) == (0, "Every topic is as the catalogue says.\n")
    # A year, as the development broker has it, is not enough for a renewal in four months.
    rare = topics("check", KILN_ADMISSION_SERVICE_RENEW_OFFSETS_SECONDS=str(120 * 86_400))
    assert rare.returncode == 1
    assert "raise offsets.retention.minutes to 691200, or lower KILN_ADMISSION_SERVICE_RENEW_" in rare.stderr
