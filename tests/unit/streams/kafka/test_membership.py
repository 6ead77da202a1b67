"""The private parts of the client that membership looks into, and what it makes of them."""

import asyncio
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.errors import KafkaError

from streams.kafka import clients
from streams.kafka.membership import is_live_member
from streams.kafka.settings import KafkaSettings

KAFKA = KafkaSettings(bootstrap_servers="127.0.0.1:9")


def member(beat: Callable[[Any], bool]) -> Any:
    coordinator = Mock(spec=GroupCoordinator)
    loop = asyncio.get_running_loop()
    coordinator.generation = 3
    coordinator._rejoin_needed_fut = loop.create_future()
    coordinator._closing = loop.create_future()
    coordinator._session_timeout_ms = 50

    async def heartbeat() -> bool:
        return beat(coordinator)

    coordinator._do_heartbeat = heartbeat
    return Mock(_coordinator=coordinator)


async def test_the_parts_are_still_there() -> None:
    """Fails when a version of aiokafka takes away what membership needs."""
    consumer = clients.group_consumer(KAFKA, "g")
    assert consumer._coordinator is None  # before the start: no member
    client = Mock()
    coordinator = GroupCoordinator(client, consumer._subscription, session_timeout_ms=1234)
    try:
        assert coordinator.generation <= 0
        assert not coordinator._rejoin_needed_fut.done()
        assert not coordinator._closing.done()
        assert coordinator._session_timeout_ms == 1234
        assert asyncio.iscoroutinefunction(coordinator._do_heartbeat)
        coordinator.request_rejoin()
        assert coordinator._rejoin_needed_fut.done()
    finally:
        coordinator._coordination_task.cancel()
        await consumer.stop()


async def test_a_member_whose_heartbeat_is_answered_is_live() -> None:
    assert await is_live_member(member(lambda _: True))


async def test_a_consumer_that_has_not_started_is_no_member() -> None:
    assert not await is_live_member(Mock(_coordinator=None))


def fail(_: Any) -> bool:
    raise KafkaError("not authorised")


def rebalance(coordinator: Any) -> bool:
    coordinator._rejoin_needed_fut.set_result(None)
    return True


def join_anew(coordinator: Any) -> bool:
    coordinator.generation += 1
    return True


@pytest.mark.parametrize("beat", [lambda _: False, fail, rebalance, join_anew])
async def test_any_other_answer_is_none(beat: Callable[[Any], bool]) -> None:
    assert not await is_live_member(member(beat))


async def test_silence_is_no_membership() -> None:
    consumer = member(lambda _: True)

    async def silence() -> bool:
        await asyncio.Event().wait()
        return True

    consumer._coordinator._do_heartbeat = silence
    assert not await is_live_member(consumer)


@pytest.mark.parametrize("why", ["generation", "rejoin", "closing"])
async def test_nobody_is_asked_where_the_client_knows(why: str) -> None:
    def ask(_: Any) -> bool:
        raise AssertionError("asked")

    consumer = member(ask)
    coordinator = consumer._coordinator
    if why == "generation":
        coordinator.generation = -1
    elif why == "rejoin":
        coordinator._rejoin_needed_fut.set_result(None)
    else:
        coordinator._closing.set_result(None)
    assert not await is_live_member(consumer)
