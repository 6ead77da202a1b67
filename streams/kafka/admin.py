"""Apply the catalogue to a cluster, and say where the cluster differs from it. Nothing here alters or deletes."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeVar

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaError, TopicAlreadyExistsError, for_code
from aiokafka.protocol.metadata import MetadataRequest

from schemas.errors import CommandError
from schemas.topics import TopicSpec
from streams.kafka.clients import admin_client
from streams.kafka.drift import Observed, drift, min_in_sync
from streams.kafka.errors import LogUnavailable
from streams.kafka.settings import KafkaSettings

CREATE_TOPICS = "run `kiln topics create`"
_PATIENCE_SECONDS = 30.0
_POLL_SECONDS = 0.05
_BROKER, _RETENTION = ConfigResourceType.BROKER, "offsets.retention.minutes"
_REPLICATION_MAX = 3  # what is lost with three brokers at once is not worth a fourth copy

_Result = TypeVar("_Result")


class TopicsError(CommandError):
    """The cluster refused a topic, or did not lead it in time."""


class HasSpecs(Protocol):
    """The catalogue, or a part of it."""

    def specs(self) -> Iterable[TopicSpec]: ...


async def create_topics(kafka: KafkaSettings, catalogue: HasSpecs, *, replication: int | None = None) -> Sequence[str]:
    """Create the topics that are missing and leave the others as they are. Returns the names of the new ones, once
    every broker knows a leader of every partition of the whole catalogue.

    `replication` None means as many as there are brokers, three at most. Raises TopicsError where the cluster refuses
    or does not get ready in time, KafkaError where it cannot be reached.
    """
    specs = list(catalogue.specs())

    async def attempt() -> list[str]:
        async with _admin(kafka) as admin:
            present = set(await admin.list_topics())
            missing = [spec for spec in specs if spec.name not in present]
            return await _create(admin, missing, replication or await _usual_replication(admin)) if missing else []

    created = await _patiently(attempt)
    await wait_led(kafka, [spec.name for spec in specs])
    return created


async def check_topics(kafka: KafkaSettings, catalogue: HasSpecs, *, replication: int | None = None) -> list[str]:
    """One sentence for each way in which the cluster differs from the catalogue; empty where it does not. Raises
    KafkaError where the cluster cannot be reached."""
    specs = list(catalogue.specs())

    async def attempt() -> list[str]:
        async with _admin(kafka) as admin:
            copies = replication or await _usual_replication(admin)
            observed = await _observe(admin, [spec.name for spec in specs])
        return [sentence for spec in specs for sentence in drift(spec, observed.get(spec.name), copies)]

    return await _patiently(attempt)


async def offsets_retention_minutes(kafka: KafkaSettings) -> int:
    """How long the brokers keep the offsets of a group without members: the shortest of them. Raises KafkaError; its
    kind is ClusterAuthorizationFailedError where we may not ask."""

    async def attempt() -> int:
        async with _admin(kafka) as admin:
            brokers = [str(each["node_id"]) for each in (await admin.describe_cluster())["brokers"]]
            return min([int((await _configs(admin, _BROKER, [each]))[each][_RETENTION]) for each in brokers])

    return await _patiently(attempt)


async def require_topics(kafka: KafkaSettings, names: Iterable[str], cure: str = CREATE_TOPICS) -> None:
    """Raises LogUnavailable, with the cure, where one is missing, since most clients would wait for it for ever;
    KafkaError where the cluster cannot be reached."""
    async with _admin(kafka) as admin:
        present = set(await admin.list_topics())
    if missing := [name for name in names if name not in present]:
        raise LogUnavailable(f"the topic {missing[0]} is missing; {cure}")


async def wait_led(kafka: KafkaSettings, topics: Sequence[str], *, seconds: float = _PATIENCE_SECONDS) -> None:
    """Return once every live broker names a leader of every partition of `topics`: a topic just created is unknown to
    some brokers for a moment. Raises TopicsError after `seconds`, KafkaError where no broker can be reached."""
    client = AIOKafkaClient(**kafka.client_options())
    try:
        await client.bootstrap()
        deadline = time.monotonic() + seconds
        told: set[int] = set()
        while waiting := {broker.nodeId for broker in client.cluster.brokers()} - told:
            for node in sorted(waiting):
                if await _names_leaders(client, node, topics):
                    told.add(node)
            if waiting <= told:
                continue
            if time.monotonic() > deadline:
                raise TopicsError(f"Some partition has no leader after {seconds:.0f} s; look at the brokers' logs.")
            await asyncio.sleep(_POLL_SECONDS)
            await client.force_metadata_update()  # a broker that died leaves the list
    finally:
        await client.close()


async def _names_leaders(client: AIOKafkaClient, node: int, topics: Sequence[str]) -> bool:
    try:
        response = await client.send(node, MetadataRequest(list(topics)))
    except KafkaError:
        return False
    return all(_is_led(topic) for topic in response.to_object()["topics"])


async def _patiently(attempt: Callable[[], Awaitable[_Result]]) -> _Result:
    """Again while the fault is one that passes: the client asks a broker at random, and that one may be down."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            return await attempt()
        except KafkaError as error:
            if not error.retriable or time.monotonic() > deadline:
                raise
        await asyncio.sleep(_POLL_SECONDS)


def _is_led(topic: Mapping[str, Any]) -> bool:
    partitions = topic["partitions"]
    return not topic["error_code"] and all(not each["error_code"] and each["leader"] >= 0 for each in partitions)


async def _create(admin: AIOKafkaAdminClient, specs: Sequence[TopicSpec], replication: int) -> list[str]:
    in_sync = {"min.insync.replicas": str(min_in_sync(replication))}
    response = await admin.create_topics(
        [NewTopic(spec.name, spec.partitions, replication, topic_configs=in_sync | dict(spec.config)) for spec in specs]
    )
    created = []
    for name, code, message in response.topic_errors:
        error = for_code(code)
        if error is TopicAlreadyExistsError:
            continue  # another process creates the same catalogue
        if code:
            raise TopicsError(f"The cluster refused {name}: {message or error.description}")
        created.append(name)
    return created


async def _observe(admin: AIOKafkaAdminClient, names: Sequence[str]) -> dict[str, Observed]:
    # All topics, not ours by name: asking for a missing one would create it where a cluster creates topics by itself.
    topics = {topic["topic"]: topic["partitions"] for topic in await admin.describe_topics()}
    present = [name for name in names if name in topics]
    config = await _configs(admin, ConfigResourceType.TOPIC, present) if present else {}
    return {
        name: Observed(len(topics[name]), min(len(each["replicas"]) for each in topics[name]), config[name])
        for name in present
    }


async def _configs(
    admin: AIOKafkaAdminClient, kind: ConfigResourceType, names: Sequence[str]
) -> dict[str, dict[str, str]]:
    resources = [ConfigResource(kind, name) for name in names]
    configs = {}
    for response in await admin.describe_configs(resources):
        for code, message, _, name, entries in response.resources:
            if code:
                raise for_code(code)(message)
            configs[name] = {key: value for key, value, *_ in entries}
    return configs


async def _usual_replication(admin: AIOKafkaAdminClient) -> int:
    return min(_REPLICATION_MAX, len((await admin.describe_cluster())["brokers"]))


@asynccontextmanager
async def _admin(kafka: KafkaSettings) -> AsyncIterator[AIOKafkaAdminClient]:
    admin = admin_client(kafka)
    try:
        await admin.start()
        yield admin
    finally:
        await admin.close()
