"""What operators stopped, as a consumer of pool `a` hears it."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel

from gpu_consumer.stops import Stops
from schemas.codec import encode
from schemas.control import Drop, Pause, Placement, SetQuota, control_key
from schemas.tenants import Quota
from schemas.work import WorkItem
from streams.kafka.settings import KafkaSettings
from tests.kafka import small_catalogue
from tests.unit.gpu_consumer.work import EPOCH, FakeIndex, FixedClock, config, job_of, work_item

EPOCH_MS = int(EPOCH.timestamp() * 1000)


class Heard:
    def __init__(self, wait_seconds: float = 5) -> None:
        self.clock = FixedClock()
        self.changes = 0
        self.stops = Stops(
            KafkaSettings(bootstrap_servers="127.0.0.1:1"), small_catalogue("t"), "a", self.clock,
            wait_seconds=wait_seconds, changed=self._changed, quotas=self._hear,
        )  # fmt: skip
        self.quotas: set[str] = set()

    def _changed(self) -> None:
        self.changes += 1

    def _hear(self, quotas: Mapping[str, Quota]) -> None:
        self.quotas = set(quotas)

    def say(self, key: bytes, said: BaseModel | bytes | None, at_ms: int = EPOCH_MS) -> None:
        value: Any = encode(said) if isinstance(said, BaseModel) else said
        record: Any = SimpleNamespace(key=key, value=value, timestamp=at_ms, offset=0)
        self.stops.fold(record)

    def pause(self) -> tuple[str | None, float | None]:
        return self.stops.paused, self.stops.paused_until()

    def reaches(self, item: WorkItem) -> str | None:
        return self.stops.reaches(job_of(item, FakeIndex()))


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.mark.parametrize("subject", [("tenant", "blue"), ("config", "sketch"), ("config", "sketch@1"), ("pool", "a")])
def test_a_drop_reaches_what_was_there(heard: Heard, subject: tuple[str, str]) -> None:
    heard.say(control_key("drop", *subject), Drop(reason="it draws badly"))
    kind, name = subject
    assert heard.reaches(work_item("a", appended_ms=EPOCH_MS)) == f"{kind} {name!r} was dropped (it draws badly)"
    assert heard.reaches(work_item("a", appended_ms=EPOCH_MS + 1)) is None
    assert heard.changes == 1


@pytest.mark.parametrize("subject", [("tenant", "red"), ("config", "oil"), ("config", "sketch@2"), ("pool", "b")])
def test_another_ones_drop_does_not(heard: Heard, subject: tuple[str, str]) -> None:
    heard.say(control_key("drop", *subject), Drop())
    assert heard.reaches(work_item("a", appended_ms=EPOCH_MS)) is None


def test_a_config_that_names_another_pool_is_reached_by_the_pool_that_runs_it(heard: Heard) -> None:
    heard.say(control_key("drop", "pool", "a"), Drop())
    assert heard.reaches(work_item("a", config=config(pool="b"))) is not None


def test_a_job_that_nobody_can_read_is_not_reached(heard: Heard) -> None:
    heard.say(control_key("drop", "pool", "a"), Drop())
    job = job_of(work_item("a"), FakeIndex())
    job.work = SimpleNamespace(item=None)  # type: ignore[assignment]
    assert heard.stops.reaches(job) is None


def test_a_pause_is_of_this_pool_and_until_it_is_taken_back(heard: Heard) -> None:
    heard.say(control_key("pause", "pool", "b"), Pause())
    heard.say(control_key("pause", "tenant", "a"), Pause())
    assert heard.pause() == (None, None)
    heard.say(control_key("pause", "pool", "a"), Pause(reason="a new driver"))
    assert heard.pause() == ("pool 'a' is paused (a new driver)", float("inf"))
    heard.say(control_key("pause", "pool", "a"), None)
    assert heard.pause() == (None, None)
    assert heard.changes == 4


def test_a_pause_ends_by_itself(heard: Heard) -> None:
    heard.say(control_key("pause", "pool", "a"), Pause(until=EPOCH + timedelta(seconds=30)))
    assert heard.stops.paused_until() == heard.clock.steady() + 30
    heard.clock.seconds = 29.999
    assert heard.stops.paused is not None
    heard.clock.seconds = 30
    assert heard.pause() == (None, None)


def test_what_does_not_concern_it_is_not_told_and_what_it_cannot_read_is_passed_by(heard: Heard) -> None:
    heard.say(control_key("pause", "pool", "a"), Pause())
    heard.say(b"weather/here", b"{}")
    heard.say(control_key("pause", "pool", "a"), b"of a later release")
    heard.say(control_key("pause", "pool", "a"), Pause())
    assert heard.stops.paused is not None
    assert heard.changes == 1, "the same again changes nothing"
    heard.say(control_key("placement", "a"), Placement(term=1, partitions=4, models={}))
    assert heard.stops.paused is not None


async def test_without_control_the_work_goes_on_after_a_while() -> None:
    heard = Heard(wait_seconds=5)
    async with heard.stops:
        reads = [heard.stops.read]
        heard.clock.seconds = 5
        reads.append(heard.stops.read)
    assert reads == [False, True]


def test_what_was_said_before_the_start_is_not_waited_for_once_it_is_read(heard: Heard) -> None:
    heard.stops._wait_until = heard.clock.steady() + 5
    heard.stops._view = SimpleNamespace(ready=True)  # type: ignore[assignment]
    assert heard.stops.read


def test_until_is_an_instant_whatever_its_offset(heard: Heard) -> None:
    until = datetime(2030, 1, 1, 1, 0, 30, tzinfo=UTC).astimezone()
    heard.say(control_key("pause", "pool", "a"), Pause(until=until))
    assert heard.stops.paused_until() == heard.clock.steady() + 3630


def test_who_has_a_quota_is_told_and_who_has_it_no_more(heard: Heard) -> None:
    heard.say(control_key("tenant", "red"), SetQuota(quota=Quota(per_second=1, burst=1)))
    heard.say(control_key("tenant", "blue"), SetQuota(quota=Quota(per_second=1, burst=1)))
    assert heard.quotas == {"red", "blue"}
    heard.say(control_key("tenant", "red"), None)
    assert heard.quotas == {"blue"}
