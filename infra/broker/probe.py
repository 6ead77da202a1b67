"""Whether a cluster takes records: a topic is created, a record is acknowledged by all replicas, the topic goes."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from uuid import uuid4

from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError, for_code

from infra.broker.errors import BrokerError
from schemas.errors import told

_ATTEMPT_SECONDS = 10.0
_PAUSE_SECONDS = 0.05


def wait_ready(bootstrap: str, *, replication: int, seconds: float, check_alive: Callable[[], None]) -> None:
    """Block until a produce succeeds. `check_alive` is called between tries and raises where waiting is in vain;
    raises BrokerError with the last reason after `seconds`."""
    with _quiet_client():
        asyncio.run(_wait_ready(bootstrap, replication, seconds, check_alive))


def why_not_ready(bootstrap: str, *, replication: int) -> str | None:
    """One try, bounded: None where a produce succeeded, else the reason."""
    with _quiet_client():
        return asyncio.run(_try(bootstrap, replication))


@contextmanager
def _quiet_client() -> Iterator[None]:
    """What the client would log as errors is what is asked here, and is told in a sentence."""
    logger = logging.getLogger("aiokafka")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


async def _wait_ready(bootstrap: str, replication: int, seconds: float, check_alive: Callable[[], None]) -> None:
    deadline = time.monotonic() + seconds
    while True:
        check_alive()
        reason = await _try(bootstrap, replication)
        if reason is None:
            return
        if time.monotonic() > deadline:
            raise BrokerError(f"No record was acknowledged within {seconds:.0f} s ({reason}).")
        await asyncio.sleep(_PAUSE_SECONDS)


async def _try(bootstrap: str, replication: int) -> str | None:
    try:
        async with asyncio.timeout(_ATTEMPT_SECONDS):
            for address in bootstrap.split(","):
                # A refused connection is cheaper than a client that tries.
                host, port = address.rsplit(":", 1)
                _, writer = await asyncio.open_connection(host, int(port))
                writer.close()
            await _produce(bootstrap, replication)
    except (KafkaError, OSError, TimeoutError) as error:
        return told(error)
    return None


async def _produce(bootstrap: str, replication: int) -> None:
    topic = f"kiln-broker-probe-{uuid4().hex}"  # its own name, since two commands may probe at once
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap, retry_backoff_ms=50)
    await admin.start()
    try:
        response = await admin.create_topics([NewTopic(topic, 1, replication)])
        for _, code, message in response.topic_errors:
            if code:
                raise for_code(code)(message)
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", retry_backoff_ms=50)
        await producer.start()
        try:
            await producer.send_and_wait(topic, b"ready?")
        finally:
            await producer.stop()
            await admin.delete_topics([topic])
    finally:
        await admin.close()
