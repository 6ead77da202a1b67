"""Which jobs a cancel reaches."""

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from gpu_consumer.cancels import Cancels
from schemas.work import WorkItem
from streams.kafka.settings import KafkaSettings
from tests.kafka import small_catalogue
from tests.unit.gpu_consumer.work import EPOCH, FakeIndex, job_of, work_item

EPOCH_MS = int(EPOCH.timestamp() * 1000)


@pytest.fixture
def heard() -> list[bytes]:
    return []


@pytest.fixture
def cancels(heard: list[bytes]) -> Cancels:
    return Cancels(KafkaSettings(bootstrap_servers="127.0.0.1:1"), small_catalogue("t"), heard=heard.append)


def cancel(key: bytes | None, at_ms: int, value: bytes | None = b"{}") -> Any:
    return SimpleNamespace(key=key, value=value, timestamp=at_ms)


def reaches(cancels: Cancels, item: WorkItem) -> bool:
    return cancels.reaches(job_of(item, FakeIndex()))


@pytest.mark.parametrize(("cancelled_after_ms", "reached"), [(-1, False), (0, True), (5, True)])
def test_a_cancel_reaches_a_request_that_is_not_younger(
    cancels: Cancels, cancelled_after_ms: int, reached: bool
) -> None:
    item = work_item("a", appended_ms=EPOCH_MS, accepted_at=EPOCH + timedelta(hours=1))
    cancels.fold(cancel(b"blue/a", EPOCH_MS + cancelled_after_ms))
    assert reaches(cancels, item) is reached


def test_without_the_time_of_its_request_a_job_goes_by_its_acceptance(cancels: Cancels) -> None:
    cancels.fold(cancel(b"blue/a", EPOCH_MS))
    assert reaches(cancels, work_item("a"))
    assert not reaches(cancels, work_item("a", accepted_at=EPOCH + timedelta(milliseconds=2)))


def test_the_name_is_the_whole_of_it(cancels: Cancels) -> None:
    cancels.fold(cancel(b"red/a", EPOCH_MS))
    cancels.fold(cancel(b"blue/aa", EPOCH_MS))
    assert not reaches(cancels, work_item("a"))


def test_one_that_is_taken_back_reaches_nothing(cancels: Cancels, heard: list[bytes]) -> None:
    cancels.fold(cancel(b"blue/a", EPOCH_MS))
    cancels.fold(cancel(b"blue/a", EPOCH_MS + 1, value=None))
    cancels.fold(cancel(None, EPOCH_MS + 2))
    assert not reaches(cancels, work_item("a"))
    assert heard == [b"blue/a"]
