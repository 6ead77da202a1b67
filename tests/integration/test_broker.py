"""The development broker as a person has it: up, down, up again, and what goes wrong between."""

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from rich.console import Console

from infra.broker import probe, process, server
from infra.broker.cluster import Place
from infra.broker.errors import BrokerError
from infra.broker.server import State
from infra.broker.settings import BrokerSettings

pytestmark = pytest.mark.usefixtures("bootstrap")  # the jars are there, or the session's fixture has said so

CONSOLE = Console(file=StringIO())


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[BrokerSettings]:
    settings = BrokerSettings(home=tmp_path)
    yield settings
    server.down(settings)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of a broker that ran once."""
    home = tmp_path_factory.mktemp("stopped")
    settings = BrokerSettings(home=home)
    try:
        server.up(settings, CONSOLE)
    finally:
        server.down(settings)
    return home


@pytest.fixture
def ran(settings: BrokerSettings, stopped: Path, tmp_path: Path) -> BrokerSettings:
    """Of a copy of it."""
    shutil.copytree(stopped, tmp_path, dirs_exist_ok=True)
    return settings


def _kiln(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`kiln broker`, without the sub-commands beside it."""
    command = [sys.executable, "-c", "from infra.broker.cli import app; app()", *arguments]
    environment = os.environ | {"KILN_HOME": str(home), "COLUMNS": "200"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=150)


def _wait(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


async def _create(bootstrap: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    response = await admin.create_topics([NewTopic("kept", 1, bootstrap.count(",") + 1)])
    assert [code for _, code, _ in response.topic_errors] == [0]
    await admin.close()


async def _produce(bootstrap: str, value: bytes) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all")
    await producer.start()
    await producer.send_and_wait("kept", value)
    await producer.stop()


async def _read(bootstrap: str) -> list[bytes | None]:
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    await consumer.start()
    try:
        kept = TopicPartition("kept", 0)
        consumer.assign([kept])
        end = (await consumer.end_offsets([kept]))[kept]
        return [(await consumer.getone()).value for _ in range(end)]
    finally:
        await consumer.stop()


def test_up_down_and_up_keep_the_data(tmp_path: Path, settings: BrokerSettings) -> None:
    assert _kiln(tmp_path, "status").returncode == 3

    first = _kiln(tmp_path, "up")
    assert first.returncode == 0, first.stderr
    file = tmp_path / "broker" / "bootstrap"
    bootstrap = file.read_text().strip()
    assert f"The broker runs at {bootstrap}, ready after" in first.stdout
    asyncio.run(_create(bootstrap))
    asyncio.run(_produce(bootstrap, b"before"))

    again = _kiln(tmp_path, "up")
    assert (again.returncode, again.stdout) == (0, f"The broker runs already at {bootstrap}.\n")
    status = _kiln(tmp_path, "status")
    assert status.returncode == 0
    assert bootstrap in status.stdout
    assert "MiB" in status.stdout

    assert _kiln(tmp_path, "down").stdout == "The broker is stopped; its data is kept.\n"
    assert not file.exists()
    stopped = _kiln(tmp_path, "status")
    assert (stopped.returncode, stopped.stdout) == (3, "The broker is stopped; `kiln broker up` starts it.\n")
    down = _kiln(tmp_path, "down")
    assert (down.returncode, down.stdout) == (0, "No broker runs.\n")

    assert _kiln(tmp_path, "up").returncode == 0
    bootstrap = file.read_text().strip()
    asyncio.run(_produce(bootstrap, b"after"))
    assert asyncio.run(_read(bootstrap)) == [b"before", b"after"]


def test_a_crash_is_told_and_healed(tmp_path: Path, ran: BrokerSettings) -> None:
    started = server.up(ran, CONSOLE)
    asyncio.run(_create(started.bootstrap))
    asyncio.run(_produce(started.bootstrap, b"acknowledged"))
    (pid,) = server.status(ran).pids
    os.kill(pid, signal.SIGKILL)
    _wait(lambda: not process.is_ours(pid, tmp_path))

    status = _kiln(tmp_path, "status")
    assert status.returncode == 1
    assert "is gone; `kiln broker up` starts it again" in status.stdout

    healed = server.up(ran, CONSOLE)
    assert not healed.already_running
    assert asyncio.run(_read(healed.bootstrap)) == [b"acknowledged"]


def test_a_pid_that_went_to_another_program_is_left_alone(tmp_path: Path, ran: BrokerSettings) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as stranger:
        (tmp_path / "broker" / "1.pid").write_text(f"{stranger.pid}\n")
        assert server.status(ran).state is State.CRASHED
        assert not server.down(ran)
        assert stranger.poll() is None
        stranger.kill()
    assert server.status(ran).state is State.STOPPED


def test_a_frozen_broker_is_silent_and_not_running(ran: BrokerSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    server.up(ran, CONSOLE)
    (pid,) = server.status(ran).pids
    os.kill(pid, signal.SIGSTOP)
    monkeypatch.setattr(probe, "_ATTEMPT_SECONDS", 1.0)  # it answers as little in ten
    status = server.status(ran)
    assert status.state is State.SILENT
    assert "acknowledges nothing" in status.sentence
    assert server.down(ran)
    assert not process.is_ours(pid, ran.broker_directory)


def test_a_port_that_was_taken_meanwhile_is_left_to_its_holder(tmp_path: Path, ran: BrokerSettings) -> None:
    former = Place(ran.broker_directory).cluster()
    assert former is not None
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", former.nodes[0].client_port))
        holder.listen()
        second = server.up(ran, CONSOLE)
    assert second.bootstrap != former.bootstrap
    assert (tmp_path / "broker" / "bootstrap").read_text().strip() == second.bootstrap


def test_what_kafka_refuses_at_start_is_a_sentence_and_leaves_nothing_running(
    tmp_path: Path, ran: BrokerSettings
) -> None:
    cluster = tmp_path / "broker" / "cluster.json"
    meta = tmp_path / "broker" / "data" / "1" / "meta.properties"
    # Data of another node, as after a copy by hand.
    meta.write_text(meta.read_text().replace("node.id=1", "node.id=7"))
    with pytest.raises(
        BrokerError, match=r"^Broker 1 ended with \d+ while starting: .*node id 7.*\(its log is "
    ) as caught:
        server.up(ran, CONSOLE)
    assert "\n" not in str(caught.value)
    assert json.loads(cluster.read_text())["nodes"]
    assert not (tmp_path / "broker" / "bootstrap").exists()
    assert server.status(ran).state is State.STOPPED


def test_three_brokers_go_on_with_two(tmp_path: Path, settings: BrokerSettings) -> None:
    settings = BrokerSettings(home=tmp_path, broker_stop_seconds=90)  # far above what three need on a slow machine
    started = server.up(settings, CONSOLE, brokers=3)
    assert started.bootstrap.count(",") == 2
    with pytest.raises(BrokerError, match="holds the data of a cluster of 3, not 1"):
        server.up(settings, CONSOLE, brokers=1)

    asyncio.run(_create(started.bootstrap))
    asyncio.run(_produce(started.bootstrap, b"all three"))
    killed, *others = server.status(settings).pids
    os.kill(killed, signal.SIGKILL)
    asyncio.run(_produce(started.bootstrap, b"two"))
    assert "process 1 of 3 is gone" in server.status(settings).sentence

    server.up(settings, CONSOLE)
    assert server.status(settings).pids[1:] == tuple(others)
    assert asyncio.run(_read(started.bootstrap)) == [b"all three", b"two"]
    begun = time.monotonic()
    assert server.down(settings)
    assert time.monotonic() - begun < settings.broker_stop_seconds  # they did not wait for each other
