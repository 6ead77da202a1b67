"""A partition with many names and a deep backlog, whose owner is killed at each point of its opening."""

import asyncio
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from admission.world import World
from schemas.partition import partition_of
from schemas.topics import Catalogue
from streams.kafka.settings import KafkaSettings
from tests.admission import committed, decided_work, drained, eventually, produce, request, running, work_of

TENANT = "atelier"
POINTS = ("logged", "tenants", "decisions", "folded", "emitted", "said")


def send(kafka: KafkaSettings, catalogue: Catalogue, ids: Iterable[str]) -> None:
    records = ((TENANT.encode(), request(TENANT, each)) for each in ids)
    produce(kafka, catalogue.requests, records, partitioner="murmur2_random")


async def restart(
    kafka: KafkaSettings, world: World, environment: dict[str, str], *, names: int, waiting: int, points: Iterable[str]
) -> float:
    """Seconds from the last start to its readiness. Fails unless every request was decided once, and its work is
    there, always the same."""
    catalogue = world.catalogue
    async with running(kafka, world, "plain"):
        send(kafka, catalogue, (f"name{number}" for number in range(names)))
        await drained(kafka, catalogue, seconds=600)
    send(kafka, catalogue, (f"name{number}" for number in range(0, names, 10)))  # repeats
    send(kafka, catalogue, (f"late{number}" for number in range(waiting)))
    command = [sys.executable, "-m", "tests.integration.restart_child", str(names // 2), *points]
    root = str(Path(__file__).parents[2])
    child = await asyncio.to_thread(
        subprocess.run, command, env=environment, cwd=root, capture_output=True, text=True, timeout=600, check=False
    )
    assert child.stdout.split() == [*points], child.stderr[-4000:]
    began = time.monotonic()
    async with running(kafka, world, "plain") as service:
        await eventually(lambda: service.not_ready() is None)
        ready_after = time.monotonic() - began
        await drained(kafka, catalogue, seconds=600)
        await asyncio.to_thread(_check, kafka, catalogue, names, waiting)
    return ready_after


def _check(kafka: KafkaSettings, catalogue: Catalogue, names: int, waiting: int) -> None:
    decisions = [each.json() for each in committed(kafka, catalogue.decisions, catalogue.requests_partitions)]
    expected = {f"name{number}" for number in range(names)} | {f"late{number}" for number in range(waiting)}
    assert len(decisions) == len(expected)
    assert {each["request_id"] for each in decisions} == expected
    assert [each["number"] for each in decisions] == list(range(1, len(expected) + 1))
    assert {each["verdict"] for each in decisions} == {"accepted"}
    assert {each.partition for each in committed(kafka, catalogue.decisions, catalogue.requests_partitions)} == {
        partition_of(TENANT.encode(), catalogue.requests_partitions)
    }
    work = defaultdict(set)
    for topic, record in work_of(kafka, catalogue):
        work[(record.key or b"").decode()].add((topic, record.partition, record.value))
    assert {each["job_id"] for each in decisions} == work.keys()
    assert {len(same) for same in work.values()} == {1}
    assert {decided_work(each) for each in decisions} == {value for same in work.values() for _, _, value in same}
