"""A producer that does not give up."""

import asyncio
from typing import Any

import pytest
from aiokafka.errors import KafkaError, ProducerClosed

from streams.kafka import patient
from streams.kafka.patient import PatientProducer
from streams.kafka.sending import Output
from streams.kafka.settings import KafkaSettings
from tests.unit.streams.kafka.batching import Batching

OUTPUTS = [Output("t", 0, b"k", str(number).encode()) for number in range(3)]


class Fake(Batching):
    """Acknowledges `lives` sends, then fails or hangs; or does not start."""

    def __init__(self, lives: int, *, hangs: bool = False, starts: bool = True) -> None:
        self.lives, self.hangs, self.starts = lives, hangs, starts
        self.sent: list[bytes] = []
        self.stopped = False

    async def start(self) -> None:
        if not self.starts:
            raise KafkaError("no broker")

    async def stop(self) -> None:
        self.stopped = True

    async def send(self, topic: str, value: bytes, **_: Any) -> Any:
        acknowledged = asyncio.get_running_loop().create_future()
        if len(self.sent) < self.lives:
            self.sent.append(value)
            acknowledged.set_result(None)
        elif not self.hangs:
            acknowledged.set_exception(ProducerClosed())
        return acknowledged


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> list[Fake]:
    waiting: list[Fake] = []
    made = iter(waiting)
    monkeypatch.setattr(patient, "idempotent_producer", lambda _: next(made))
    return waiting


def make(timeout_seconds: float = 5.0) -> PatientProducer:
    kafka = KafkaSettings(bootstrap_servers="127.0.0.1:1")
    return PatientProducer(kafka, timeout_seconds=timeout_seconds, backoff_seconds_max=0.01)


async def test_one_client_writes_all_there_is(fakes: list[Fake]) -> None:
    fakes.append(Fake(100))
    producer = make()
    failures: list[Exception] = []
    for _ in range(2):
        await producer.write(OUTPUTS, failures.append)
    assert fakes[0].sent == [b"0", b"1", b"2"] * 2
    assert failures == []
    await producer.close()
    assert fakes[0].stopped


@pytest.mark.parametrize("first", [Fake(2), Fake(2, hangs=True), Fake(0, starts=False)])
async def test_after_a_failure_another_client_writes_all_of_it_again(fakes: list[Fake], first: Fake) -> None:
    fakes += [first, Fake(100)]
    failures: list[Exception] = []
    await make(1.0).write(OUTPUTS, failures.append)
    assert first.stopped
    assert fakes[1].sent == [b"0", b"1", b"2"]
    assert len(failures) == 1


async def test_a_cancel_ends_it(fakes: list[Fake]) -> None:
    fakes.append(Fake(0, hangs=True))
    writing = asyncio.create_task(make().write(OUTPUTS, lambda _: None))
    await asyncio.sleep(0)
    writing.cancel()
    await asyncio.wait({writing})
    assert writing.cancelled()
