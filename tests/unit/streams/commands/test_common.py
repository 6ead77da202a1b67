"""What a cluster refuses is a sentence, and so is that it does not answer, or not yet."""

import asyncio
import socket

import pytest
from aiokafka.errors import GroupAuthorizationFailedError, KafkaConnectionError, KafkaError

from schemas.errors import CommandError
from streams.commands.common import run


async def fails(error: KafkaError) -> None:
    raise error


def test_what_may_not_be_done_names_the_command_that_tells_who_may() -> None:
    with pytest.raises(CommandError, match=r"^Kafka does not allow it \(group authorization failed: g\); `kiln acls`"):
        run(fails(GroupAuthorizationFailedError("g")))


def test_a_cluster_that_does_not_answer_is_named_with_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "broker:9092")
    said = r"^Kafka at broker:9092 does not answer: Unable to bootstrap; look at .* set KAFKA_BOOTSTRAP_SERVERS"
    with pytest.raises(CommandError, match=said):
        run(fails(KafkaConnectionError("Unable to bootstrap")))


@pytest.mark.parametrize("listens", [True, False])
def test_what_is_waited_for_is_said_while_it_is_waited_for(
    listens: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whether the port takes connections and says nothing, or none."""
    for name in ("_SILENT_SECONDS", "_ANSWER_SECONDS"):
        monkeypatch.setattr(f"streams.commands.common.{name}", 0.01)
    said: list[str] = []

    async def waits() -> None:
        async with asyncio.timeout(60):
            while not said:
                await asyncio.sleep(0.01)
                said.extend(capsys.readouterr().err.splitlines())

    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1] if listens else 1}"
        monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", address)
        run(waits())
    assert said == [f"note: waiting for Kafka at {address} (KAFKA_BOOTSTRAP_SERVERS)"]
