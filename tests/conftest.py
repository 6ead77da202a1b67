"""Fixtures of all tests: one real broker a session, a topic prefix a test, and marks that follow from the path.

kafka       KafkaSettings of a real broker, with a session time-out of 3 s
kafka_env   the environment by which a child process finds the same broker
prefix      a topic prefix that no other test has; its topics are deleted after the test
catalogue   a small deployment under that prefix, its topics created
"""

import asyncio
import gc
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Never
from uuid import uuid4

import pytest

# A test of pure code should not wait for what only a broker's tests import.
if TYPE_CHECKING:
    from schemas.topics import Catalogue
    from streams.kafka.settings import KafkaSettings

_TESTS = Path(__file__).parent
_KINDS = {"unit", "property", "contract", "integration", "fault", "gpu", "benchmarks"}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "benchmarks: measures, and says so")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(_TESTS) and (kind := item.path.relative_to(_TESTS).parts[0]) in _KINDS:
            item.add_marker(kind)


def pytest_collection_finish() -> None:
    """What is imported by now stays. Looking through it, of which torch is most, would take each `gc.collect` of a test
    a third of a second."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu"):
        import torch

        if not torch.cuda.is_available():
            pytest.skip("needs a CUDA device")


def missing_service(sentence: str) -> Never:
    """A service that a test needs is not there: skipped at home, failed in CI, where nobody would see the skip."""
    if os.environ.get("CI") == "true":
        pytest.fail(sentence, pytrace=False)
    pytest.skip(sentence)


@pytest.fixture(scope="session")
def broker_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """KILN_HOME of this session's broker and of every child process that a test starts."""
    return tmp_path_factory.mktemp("kiln-home")


@pytest.fixture(scope="session")
def bootstrap(broker_home: Path) -> Iterator[str]:
    """Addresses of the session's broker: one of our own, or with KILN_TEST_EXTERNAL_BROKER=1 the one that
    KAFKA_BOOTSTRAP_SERVERS names."""
    external = os.environ.get("KAFKA_BOOTSTRAP_SERVERS")
    if external and os.environ.get("KILN_TEST_EXTERNAL_BROKER") == "1":
        yield external
        return
    from rich.console import Console

    from infra.broker import server
    from infra.broker.errors import JarError
    from infra.broker.settings import BrokerSettings

    settings = BrokerSettings(home=broker_home)
    try:
        # Tied: were this process killed, its broker would stop too.
        started = server.up(settings, Console(stderr=True), tied=True)
    except JarError as error:
        missing_service(f"No Kafka: {error}")
    try:
        yield started.bootstrap
    finally:
        server.down(settings)


@pytest.fixture(scope="session")
def kafka(bootstrap: str) -> "KafkaSettings":
    """A session time-out at which a test can wait for a member's death."""
    from streams.kafka.settings import KafkaSettings

    return KafkaSettings(bootstrap_servers=bootstrap, session_timeout_ms=3000, heartbeat_interval_ms=500)


@pytest.fixture
def kafka_env(kafka: "KafkaSettings", broker_home: Path) -> dict[str, str]:
    """A child's environment: ours, the session's broker and its time-outs."""
    return {
        **os.environ,
        "KILN_HOME": str(broker_home),
        "KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap_servers,
        "KAFKA_SESSION_TIMEOUT_MS": str(kafka.session_timeout_ms),
        "KAFKA_HEARTBEAT_INTERVAL_MS": str(kafka.heartbeat_interval_ms),
    }


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> Iterator[str]:
    """Unique on any cluster, and it tells which test left a topic behind."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")[:40].rstrip("-")
    unique = f"{name}-{uuid4().hex[:8]}"
    yield unique
    if "kafka" in request.fixturenames:
        from tests.kafka import delete_topics

        asyncio.run(delete_topics(request.getfixturevalue("kafka"), unique))


@pytest.fixture
async def catalogue(kafka: "KafkaSettings", prefix: str) -> "Catalogue":
    """A small deployment of its own, every topic created and led."""
    from streams.kafka.admin import create_topics
    from tests.kafka import small_catalogue

    small = small_catalogue(prefix)
    await create_topics(kafka, small)
    return small
