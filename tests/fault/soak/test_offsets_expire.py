"""A broker that forgets a sleeping group after a minute, the least that it takes: who is renewed is remembered."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from infra.broker import server
from infra.broker.profile import server_properties
from infra.broker.settings import BrokerSettings
from streams.kafka.admin import create_topics
from streams.kafka.renewal import renew
from streams.kafka.settings import KafkaSettings
from tests.contract.test_renewal import PROTOCOLS, asleep, committed
from tests.integration.gpu_pool import eventually
from tests.kafka import small_catalogue


@pytest.fixture
def forgetful(tmp_path: Path) -> Iterator[KafkaSettings]:
    settings = BrokerSettings(home=tmp_path)

    def properties(*given: Any) -> dict[str, str]:
        soon = {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "1000"}
        return server_properties(*given) | soon

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(server, "server_properties", properties)
        started = server.up(settings, Console(stderr=True), tied=True)
    try:
        yield KafkaSettings(bootstrap_servers=started.bootstrap)
    finally:
        server.down(settings)


@pytest.mark.timeout(900)
async def test_who_is_renewed_is_remembered_and_who_is_not_is_forgotten(forgetful: KafkaSettings) -> None:
    left, kept = [small_catalogue(name) for name in ("left", "kept")]
    for each in (left, kept):
        await create_topics(forgetful, each)
    kept_group, left_group = await asleep(forgetful, kept), await asleep(forgetful, left)

    async def keep_renewing() -> None:
        while True:
            await asyncio.sleep(10)
            await renew(forgetful, kept_group, PROTOCOLS)

    async def forgotten(group: str) -> bool:
        await asyncio.sleep(1)
        return not await committed(forgetful, group)

    renewing = asyncio.create_task(keep_renewing())
    await eventually(lambda: forgotten(left_group), "the group that slept is forgotten")
    assert await committed(forgetful, kept_group) == dict.fromkeys(range(4), 3)
    renewing.cancel()
    await asyncio.wait({renewing})
    await eventually(lambda: forgotten(kept_group), "so is the other one, left alone")
