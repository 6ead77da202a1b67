"""Observations over a real broker: told to the same device, read by whoever starts later, in nobody's way."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import NewTopic
from aiokafka.errors import KafkaConnectionError

from gpu_consumer.engine.protocol import EngineDied, Observed, Peak
from gpu_consumer.measures import Measures
from gpu_consumer.observations import Observations
from schemas.codec import encode
from schemas.observation import Observation, decode_observation
from streams.kafka.clients import idempotent_producer
from streams.kafka.log import Record
from streams.kafka.settings import KafkaSettings
from streams.kafka.view import CompactedView
from tests.contract.leased import create, nothing_left, until
from tests.scripted import ScriptedEngine

GB = 10**9
CARD = "NVIDIA H100 80GB HBM3"
HASH = "ab" * 32
AT = datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.fixture
async def topic(kafka: KafkaSettings, prefix: str) -> AsyncIterator[str]:
    await create(kafka, NewTopic(f"{prefix}.observations", 1, 1, topic_configs={"cleanup.policy": "compact"}))
    with nothing_left():
        yield f"{prefix}.observations"


@asynccontextmanager
async def observing(
    kafka: KafkaSettings, topic: str, device: str = CARD, period_seconds: float = 0.05
) -> AsyncIterator[Observations]:
    observations = Observations(kafka, topic, device, period_seconds=period_seconds, window=20, now=lambda: AT)
    await observations.start()
    try:
        yield observations
    finally:
        await observations.stop()


async def become(condition: Callable[[], bool]) -> None:
    async def holds() -> bool:
        return condition()

    await until(holds)


async def test_what_one_engine_measured_another_of_the_same_device_predicts(kafka: KafkaSettings, topic: str) -> None:
    async with observing(kafka, topic) as ours, observing(kafka, topic, "another card") as others:
        for n in range(20):
            ours.note("kind", 4, HASH, (n + 1) * GB, 1.0 + n)
        others.note("kind", 4, HASH, 99 * GB, 1.0)
        await become(lambda: ours.peaks() == (Peak("kind", 4, 19 * GB),))
        await become(lambda: others.peaks() == (Peak("kind", 4, 99 * GB),))
        async with observing(kafka, topic) as late:
            await become(lambda: late.peaks() == (Peak("kind", 4, 19 * GB),))


async def test_it_tells_the_percentiles_of_the_last_batches(kafka: KafkaSettings, topic: str) -> None:
    records: list[Record] = []
    view = CompactedView(kafka, topic, records.append)
    async with observing(kafka, topic) as ours:
        for n in range(30):  # the window is 20
            ours.note("kind", 4, HASH, (n + 1) * GB, 1.0 + n)
        await view.start()
        await become(lambda: bool(records))
        await view.stop()
    told = decode_observation(records[-1].value or b"")
    assert told == Observation(
        device=CARD, kind="kind", bucket=4, config_hash=HASH, peak_bytes=29 * GB, gpu_seconds=29.0, count=20, at=AT
    )
    assert records[-1].key == told.key


async def test_a_batch_in_two_configurations_is_predicted_by_the_larger(kafka: KafkaSettings, topic: str) -> None:
    async with observing(kafka, topic) as ours:
        ours.note("kind", 4, HASH, 3 * GB, 1.0)
        ours.note("kind", 4, "cd" * 32, 2 * GB, 1.0)
        ours.note("kind", 1, HASH, GB, 1.0)
        ours.note("no account", 1, HASH, 0, 1.0)
        await become(lambda: set(ours.peaks()) == {Peak("kind", 4, 3 * GB), Peak("kind", 1, GB)})


async def test_seconds_are_told_by_a_device_without_an_account_of_memory(kafka: KafkaSettings, topic: str) -> None:
    records: list[Record] = []
    view = CompactedView(kafka, topic, records.append)
    await view.start()
    async with observing(kafka, topic) as ours:
        ours.note("kind", 1, HASH, 0, 1.5)
        await become(lambda: bool(records))
        assert ours.peaks() == ()
    await view.stop()
    told = decode_observation(records[-1].value or b"")
    assert (told.peak_bytes, told.gpu_seconds) == (0, 1.5)


async def test_a_key_is_told_at_most_once_a_period(kafka: KafkaSettings, topic: str) -> None:
    records: list[Record] = []
    view = CompactedView(kafka, topic, records.append)
    await view.start()
    async with observing(kafka, topic, period_seconds=0.5) as ours:
        started = asyncio.get_running_loop().time()
        while len(records) < 3:
            ours.note("kind", 4, HASH, GB, 1.0)
            await asyncio.sleep(0.01)
    # One more may have been told, and heard, before it had stopped.
    ended = asyncio.get_running_loop().time()
    assert len(records) <= (ended - started) // 0.5 + 1
    await view.stop()


async def test_what_nobody_understands_changes_nothing(kafka: KafkaSettings, topic: str) -> None:
    producer = idempotent_producer(kafka)
    await producer.start()
    good = Observation(
        device=CARD, kind="kind", bucket=4, config_hash=HASH, peak_bytes=GB, gpu_seconds=1.0, count=1, at=AT
    )
    async with observing(kafka, topic) as ours:
        for value in (b"\xff", b"{}", encode(good).replace(b'"schema_version":1', b'"schema_version":2'), None):
            await producer.send_and_wait(topic, value, key=b"some")
        await producer.send_and_wait(topic, encode(good), key=good.key)
        await become(lambda: ours.peaks() == (Peak("kind", 4, GB),))
    await producer.stop()


async def test_a_broker_that_is_away_is_in_nobodys_way(kafka: KafkaSettings, unused_tcp_port: int) -> None:
    away = kafka.model_copy(
        update={
            "bootstrap_servers": f"127.0.0.1:{unused_tcp_port}",
            "request_timeout_ms": 1_000,
            "close_timeout_ms": 100,
        }
    )
    async with observing(away, "observations") as ours:
        for n in range(5_000):
            ours.note(f"kind {n}", 4, HASH, GB, 1.0)
        await asyncio.sleep(0)
        assert ours.peaks() == ()
    assert len(ours._noted.windows) == len(ours._noted.news) == 1024


async def test_what_could_not_be_told_is_told_later(
    kafka: KafkaSettings, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = AIOKafkaProducer.send_and_wait
    failures = 3

    async def failing(self: AIOKafkaProducer, *arguments: Any, **named: Any) -> Any:
        nonlocal failures
        failures -= 1
        if failures >= 0:
            raise KafkaConnectionError("away")
        return await send(self, *arguments, **named)

    monkeypatch.setattr(AIOKafkaProducer, "send_and_wait", failing)
    async with observing(kafka, topic) as ours:
        ours.note("kind", 4, HASH, GB, 1.0)
        ours.note("kind", 2, HASH, GB, 1.0)
        await become(lambda: len(ours.peaks()) == 2)
    assert failures < 0


class Pupil(ScriptedEngine):
    """Keeps what it is told, and is dead at first."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[tuple[Peak, ...]] = []
        self.asked = 0

    async def learn(self, peaks: Sequence[Peak]) -> None:
        self.asked += 1
        if self.asked == 1:
            raise EngineDied("the engine was killed")
        self.told.append(tuple(peaks))

    async def profile(self, steps: int) -> None:
        raise AssertionError("nobody traces here")


async def test_an_engine_learns_what_was_measured_anywhere_also_after_a_death(kafka: KafkaSettings, topic: str) -> None:
    pupil = Pupil()
    measures = Measures(pupil, Observations(kafka, topic, CARD, period_seconds=0.05), period_seconds=0.05)
    async with measures.running():
        measures.note(Observed(Peak("kind", 4, 7 * GB), HASH, 1.5))
        await become(lambda: pupil.told[-1:] == [(Peak("kind", 4, 7 * GB),)])
    assert pupil.asked > 1
