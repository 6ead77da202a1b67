"""Emission: at least once, the same bytes, and a failure that costs nobody a lease."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from aiokafka.errors import KafkaError, ProducerClosed

from admission.decide import decide
from schemas.decision import Decision
from schemas.trace import HEADER_TRACE
from schemas.work import HEADER_SCHEMA, decode_work
from streams.emission import Emission, work_headers
from streams.kafka import patient
from streams.kafka.settings import KafkaSettings
from streams.metrics import AdmissionMetrics
from tests.unit.admission.scene import NOW_MS, arrival, decided, fresh_state, make_world, request
from tests.unit.streams.kafka.batching import Batching

WORLD = make_world()


class FakeProducer(Batching):
    """Acknowledges until it dies: then every send fails, as a client does whose sender has ended (case AIO-08)."""

    def __init__(self, lives: int | None = None) -> None:
        self.lives = lives
        self.sent: list[tuple[str, int, bytes, bytes]] = []
        self.stopped = False

    async def start(self) -> None: ...

    async def stop(self) -> None:
        self.stopped = True

    async def send(self, topic: str, value: bytes, *, key: bytes = b"", partition: int = 0, **_: Any) -> Any:
        acknowledged = asyncio.get_running_loop().create_future()
        if self.lives is not None and len(self.sent) >= self.lives:
            acknowledged.set_exception(ProducerClosed())
        else:
            self.sent.append((topic, partition, key, value))
            acknowledged.set_result(None)
        return acknowledged


@pytest.fixture
def producers(monkeypatch: pytest.MonkeyPatch) -> list[FakeProducer]:
    """What the factory gives, one after the other."""
    waiting: list[FakeProducer] = []
    made = iter(waiting)
    monkeypatch.setattr(patient, "idempotent_producer", lambda _: next(made))
    return waiting


def make(metrics: AdmissionMetrics) -> Emission:
    kafka = KafkaSettings(bootstrap_servers="127.0.0.1:1")
    return Emission(kafka, WORLD.catalogue, metrics, timeout_seconds=5, backoff_seconds_max=0.01)


def decisions(number: int) -> list[Decision]:
    state, made = fresh_state(), []
    for offset in range(number):
        record = arrival(request(f"r{offset}"), offset)
        verdict = decide(record, state, WORLD, NOW_MS)
        state.apply(record, verdict)
        made.append(decided(verdict))
    return made


async def test_a_dead_producer_is_replaced_and_all_is_produced_again(producers: list[FakeProducer]) -> None:  # AIO-08
    dying, healthy = FakeProducer(lives=2), FakeProducer()
    producers.extend([dying, healthy])
    metrics = AdmissionMetrics()
    made = decisions(4)
    await make(metrics).emit(made, partition=0)
    assert dying.stopped
    assert [key for _, _, key, _ in healthy.sent] == [each.job_id.encode() for each in made]
    assert dying.sent == healthy.sent[:2]  # byte for byte
    assert metrics.registry.get_sample_value("kiln_admission_emission_retries_total") == 1
    assert metrics.registry.get_sample_value("kiln_admission_not_emitted", {"partition": "0"}) == 0


async def test_a_failure_has_a_name_while_it_lasts(
    producers: list[FakeProducer], monkeypatch: pytest.MonkeyPatch
) -> None:
    producers.extend([FakeProducer(lives=0), FakeProducer()])
    emitting = make(AdmissionMetrics())
    seen: list[str | None] = []
    sleep: Callable[[float], Any] = asyncio.sleep

    async def watched(seconds: float) -> None:
        seen.append(emitting.problem)
        await sleep(seconds)

    monkeypatch.setattr("streams.kafka.patient.asyncio.sleep", watched)
    await emitting.emit(decisions(1), partition=0)
    assert seen
    assert "cannot be produced" in (seen[0] or "")
    assert emitting.problem is None


async def test_only_accepted_work_is_produced_and_nothing_needs_no_producer(producers: list[FakeProducer]) -> None:
    rejected = replace(decisions(1)[0], verdict="rejected", work=None)
    await make(AdmissionMetrics()).emit([rejected], partition=0)
    assert producers == []


def test_work_carries_the_trace_that_its_decision_stored() -> None:
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    (plain,) = decisions(1)
    emission = make(AdmissionMetrics())
    assert emission._output(plain).headers == work_headers(plain)
    traced = emission._output(replace(plain, traceparent=trace))
    assert traced.headers == (*work_headers(plain), (HEADER_TRACE, trace.encode()))


def test_headers_are_those_of_the_work_item() -> None:
    (decision,) = decisions(1)
    assert decision.work is not None
    assert work_headers(decision) == decode_work(decision.work.encode()).headers()


@pytest.mark.parametrize(
    ("work", "version"),
    [
        ('{"schema_version":12,"prompt":""}', b"12"),
        (json.dumps({"prompt": '{"schema_version":9}', "schema_version": 2}, separators=(",", ":")), b"2"),
        (json.dumps({"a": '\\","schema_version":9', "schema_version": 2}, separators=(",", ":")), b"2"),
        ('{"prompt":"an item of the first version said none"}', b"1"),
    ],
)
def test_the_version_is_the_items_own_and_never_a_text(work: str, version: bytes) -> None:
    decision = replace(decisions(1)[0], work=work)
    assert dict(work_headers(decision))[HEADER_SCHEMA] == version


def test_a_kafka_error_is_what_is_repeated() -> None:
    assert issubclass(ProducerClosed, KafkaError)
