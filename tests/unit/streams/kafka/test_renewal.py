"""When groups are renewed, and by whom. What a renewal does to a group is a test of its own, on a broker."""

import asyncio
from collections.abc import Mapping

import pytest

from streams.kafka import renewal
from streams.kafka.groups import Member
from streams.kafka.renewal import Renewals, is_consumer
from streams.kafka.settings import KafkaSettings


class Counted(Renewals):
    """Fails the first `failing` times."""

    def __init__(self, *, seconds: float, failing: int = 0) -> None:
        kafka = KafkaSettings(bootstrap_servers="127.0.0.1:1")
        super().__init__(kafka, ["g"], ["roundrobin"], seconds=seconds)
        self.times = 0
        self.changed = asyncio.Condition()
        self._failing = failing

    async def once(self) -> Mapping[str, str]:
        async with self.changed:
            self.times += 1
            self.changed.notify_all()
        return {"g": "failed" if self.times <= self._failing else "renewed"}

    async def wait_for(self, count: int) -> None:
        async with asyncio.timeout(60), self.changed:
            await self.changed.wait_for(lambda: self.times >= count)


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What was slept, in no time."""
    slept: list[float] = []
    pause = asyncio.sleep

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        await pause(0)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    return slept


async def test_again_and_again_and_after_trouble_sooner(waits: list[float]) -> None:
    renewals = Counted(seconds=100.0, failing=2)
    async with renewals.running(lambda: True):
        await renewals.wait_for(5)
    assert waits[:5] == [10.0, 10.0, 10.0, 100.0, 100.0]


async def test_what_is_another_process_s_is_left_to_it_until_it_is_ours(waits: list[float]) -> None:
    renewals, asked = Counted(seconds=100.0), 0

    def mine() -> bool:
        nonlocal asked
        asked += 1
        return asked > 3

    async with renewals.running(mine):
        await renewals.wait_for(1)
    assert waits[:4] == [10.0, 100.0, 100.0, 100.0]


async def test_it_joins_under_a_name_that_no_consumer_has(monkeypatch: pytest.MonkeyPatch) -> None:
    came: list[str] = []

    async def renew(kafka: KafkaSettings, *_: object) -> str:
        came.append(kafka.client_id)
        return "renewed"

    monkeypatch.setattr(renewal, "renew", renew)
    await Renewals(KafkaSettings(bootstrap_servers="127.0.0.1:1"), ["g"], ["roundrobin"], seconds=60).once()
    (client,) = came
    assert not is_consumer(Member(f"{client}-5f0c", "127.0.0.1", b""))


@pytest.mark.parametrize(("client", "works"), [("promptkiln", True), ("promptkiln-renewal", False)])
def test_who_only_renews_is_no_consumer(client: str, works: bool) -> None:
    assert is_consumer(Member(f"{client}-5f0c", "127.0.0.1", b"")) is works
