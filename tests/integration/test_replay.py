"""Admission's group set back to the beginning, and beyond the end, while a GPU consumer takes what is admitted.

Its offsets are a hint for fetching and for lag: what was decided is in the log. So nothing is charged, run or answered
again, and nothing that came meanwhile is skipped.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from aiokafka import TopicPartition

from schemas.tenancy import CURSOR_KEY, JOB_PREFIX
from schemas.tenants import Quota
from schemas.topics import Catalogue
from streams.kafka.clients import group_consumer
from streams.kafka.settings import KafkaSettings
from tests.admission import FREE, Seen, committed, drained, eventually, lag, produce, request, running, small_world
from tests.integration.gpu_pool import GpuPool
from tests.scripted import ScriptedEngine

LIMITED, TENANT = "atelier", "bazaar"
BURST = 5
BEYOND = 1000  # records past the end, as after a restored broker


class Told:
    """All that was ever said of requests, and what admission remembers of its tenants."""

    def __init__(self, kafka: KafkaSettings, catalogue: Catalogue) -> None:
        self.decisions = self._read(kafka, catalogue.decisions, 2)
        self.results = self._read(kafka, catalogue.results, 2)
        self.dead = self._read(kafka, catalogue.dead_letters, 1)
        work = [catalogue.work("a", lane) for lane in ("interactive", "standard", "bulk")]
        self.work = sum((self._read(kafka, topic, 4) for topic in work), Counter[Any]())
        self.tenants = {
            (each.partition, each.key): each.value
            for each in committed(kafka, catalogue.tenants, 2)
            if each.key != CURSOR_KEY
        }
        self.tenants = {key: value for key, value in self.tenants.items() if value is not None}

    @staticmethod
    def _read(kafka: KafkaSettings, topic: str, partitions: int) -> Counter[Any]:
        return Counter((each.partition, each.key, each.value) for each in committed(kafka, topic, partitions))

    @property
    def outstanding(self) -> int:
        return sum(key is not None and key.startswith(JOB_PREFIX) for _, key in self.tenants)


async def put(kafka: KafkaSettings, catalogue: Catalogue, offsets: Callable[[int], int]) -> None:
    """As an operator would, while no admission runs: the group's offset of each partition, from its end."""
    consumer = group_consumer(kafka, catalogue.admission_group)
    partitions = [TopicPartition(catalogue.requests, number) for number in range(2)]
    consumer.assign(partitions)
    await consumer.start()
    try:
        ends = await consumer.end_offsets(partitions)
        await consumer.commit({tp: offsets(end) for tp, end in ends.items()})
    finally:
        await consumer.stop()

    async def there() -> bool:
        behind = await asyncio.to_thread(lag, kafka, catalogue)
        return behind == {tp.partition: end - offsets(end) for tp, end in ends.items()}

    await eventually(there, what="an offset read back after a commit may be stale for a moment")


def send(kafka: KafkaSettings, catalogue: Catalogue, *values: bytes) -> None:
    """Keyed by nothing: spread over the partitions, so that some must be sent home."""
    produce(kafka, catalogue.requests, [(None, value) for value in values])


@pytest.mark.parametrize("intake", ["plain", "faust"])
async def test_a_group_that_was_reset_charges_runs_and_answers_nothing_again_and_skips_nothing(
    kafka: KafkaSettings, catalogue: Catalogue, tmp_path: Path, intake: Literal["plain", "faust"]
) -> None:
    world = small_world(catalogue, tenants={LIMITED: Quota(per_second=0.0001, burst=BURST), TENANT: FREE})
    pool, engine = GpuPool(kafka, catalogue, tmp_path), ScriptedEngine()
    mixed = [
        *(request(LIMITED, f"r{number}") for number in range(BURST + 3)),
        *(request(TENANT, f"r{number}") for number in range(12)),
        *(request(TENANT, f"r{number}") for number in range(4)),  # repeats
        request(TENANT, "r0", "another prompt"),
        request(TENANT, "refused", images=99),
        b"no request",
        request(LIMITED, "refused", seed=-1),
    ]
    accepted = BURST + 12

    async def quiet(results: int, accepted: int) -> Told:
        """Everything sent is decided, every result is there and folded."""
        await drained(kafka, catalogue)

        async def folded() -> Told | None:
            told = await asyncio.to_thread(Told, kafka, catalogue)
            return told if sum(told.results.values()) >= results and told.outstanding == 0 else None

        told: Told = await eventually(folded, what=f"{results} results, folded")
        assert sum(told.work.values()) == accepted
        assert sum(told.results.values()) == results
        return told

    async with pool.consumer(engine):
        async with running(kafka, world, intake):
            send(kafka, catalogue, *mixed)
            told = await quiet(results=accepted + 5, accepted=accepted)
        await put(kafka, catalogue, lambda _: 0)
        async with running(kafka, world, intake):
            again = await quiet(results=accepted + 5, accepted=accepted)
            assert vars(again) == vars(told)
        # What comes while the offset is beyond the end is not skipped.
        await put(kafka, catalogue, lambda end: end + BEYOND)
        late = (request(TENANT, "late"), request(LIMITED, "late"), request(TENANT, "last"))
        send(kafka, catalogue, *late)
        async with running(kafka, world, intake):
            told = await quiet(results=accepted + 8, accepted=accepted + 2)
    drawn = Counter(item.key for run in engine.runs for item in run)
    assert len(drawn) == accepted + 2
    assert set(drawn.values()) == {1}
    ends = Counter((each["tenant"], each["request_id"]) for each in _bodies(told.results))
    assert set(ends.values()) == {1}
    assert len(ends) == accepted + 8
    codes = Counter(each["code"] for each in _bodies(told.results) if each["status"] == "rejected")
    assert codes == {"rate_limited": 3 + 1, "invalid_request": 1, "invalid_seed": 1}, "no token was minted or charged"


def _bodies(records: Counter[Any]) -> list[dict[str, Any]]:
    return [Seen(partition, 0, key, value, ()).json() for partition, key, value in records.elements()]
