"""How every command reaches the cluster, and how it says that it waits for it, or cannot."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

import typer
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    KafkaError,
    MessageSizeTooLargeError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailed,
)

from schemas.deployment import DeploymentSettings
from schemas.errors import CatalogueError, CommandError, told
from schemas.topics import Catalogue
from streams.kafka.errors import StreamError
from streams.kafka.settings import KafkaSettings

T = TypeVar("T")
_SILENT_SECONDS = 1.0  # most work is done by then, and who waits longer wants to know for what
_ANSWER_SECONDS = 3.0  # a broker that is there and busy takes as much
_FORBIDDEN = (
    TopicAuthorizationFailedError,
    GroupAuthorizationFailedError,
    ClusterAuthorizationFailedError,
    TransactionalIdAuthorizationFailed,
)


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end. A cluster that cannot be reached is named on stderr while it is waited for, and becomes a
    sentence in the end; those of the client are not heard."""
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    try:
        return asyncio.run(_heard(work))
    except StreamError as error:
        raise CommandError(str(error)) from error
    except MessageSizeTooLargeError as error:
        raise CommandError(f"Kafka refuses a record: {told(error)}; send a smaller one") from error
    except _FORBIDDEN as error:
        raise CommandError(f"Kafka does not allow it ({told(error)}); `kiln acls` says what must be allowed") from error
    except KafkaError as error:
        raise CommandError(KafkaSettings.load().unanswered(told(error))) from error


async def _heard(work: Coroutine[Any, Any, T]) -> T:
    listening = asyncio.create_task(_say_if_silent())
    try:
        return await work
    finally:
        listening.cancel()


async def _say_if_silent() -> None:
    """The work itself is in a client that tells nothing while it tries; another is asked whether anybody is there."""
    await asyncio.sleep(_SILENT_SECONDS)
    try:
        kafka = KafkaSettings.load()
        client = AIOKafkaClient(**kafka.client_options())
    except StreamError:
        return  # the work says so
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            await client.bootstrap()
    except (KafkaError, TimeoutError):
        typer.echo(f"note: waiting for Kafka at {kafka.bootstrap_servers} (KAFKA_BOOTSTRAP_SERVERS)", err=True)
    finally:
        await client.close()


def deployment(*, with_tenants: bool = False) -> tuple[KafkaSettings, Catalogue]:
    """The cluster and the catalogue of this environment; `with_tenants` reads which of them have topics, too."""
    try:
        return KafkaSettings.load(), declared(with_tenants=with_tenants)
    except StreamError as error:
        raise CommandError(str(error)) from error


def declared(*, with_tenants: bool) -> Catalogue:
    """The catalogue alone, for what asks no cluster."""
    settings = DeploymentSettings()
    try:
        return settings.catalogue(settings.load_tenants() if with_tenants else None)
    except CatalogueError as error:
        raise CommandError(str(error)) from error
