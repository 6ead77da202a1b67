"""How every command reaches the cluster, and how it says that it cannot."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

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
_FORBIDDEN = (
    TopicAuthorizationFailedError,
    GroupAuthorizationFailedError,
    ClusterAuthorizationFailedError,
    TransactionalIdAuthorizationFailed,
)


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end; a cluster that cannot be reached becomes a sentence, and the only one."""
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    try:
        return asyncio.run(work)
    except StreamError as error:
        raise CommandError(str(error)) from error
    except MessageSizeTooLargeError as error:
        raise CommandError(f"Kafka refuses a record: {told(error)}; send a smaller one") from error
    except _FORBIDDEN as error:
        raise CommandError(f"Kafka does not allow it ({told(error)}); `kiln acls` says what must be allowed") from error
    except KafkaError as error:
        raise CommandError(
            f"Kafka does not answer ({told(error)}); start one with `kiln broker up` or set KAFKA_BOOTSTRAP_SERVERS"
        ) from error


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
