"""A producer and reader in a few lines: publish requests, and learn how each ended."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import aclosing
from typing import Self

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.structs import ConsumerRecord
from pydantic import ValidationError

from schemas.cancel import CancelRequest
from schemas.codec import encode
from schemas.errors import Undecodable
from schemas.progress import ProgressEvent, decode_progress
from schemas.request import GenerationRequest
from schemas.result import GenerationResult, parse_result
from schemas.signature import HEADER_SIGNATURE, SigningKey
from schemas.topics import Catalogue
from streams.kafka.admin import CREATE_TOPICS, require_topics
from streams.kafka.clients import idempotent_producer, log_consumer, stop_client
from streams.kafka.log import read_log
from streams.kafka.settings import KafkaSettings

_GIVE_A_TOPIC = "the operators give a tenant one by `topic: true` in tenants.yaml and `kiln topics create`"


class PromptClient:
    """Publishes requests keyed by tenant and reads results, committed ones only, from the moment it was opened.

    `signing` is the key by which each is proven to be its tenant's; `own_topics`: each tenant has a requests topic of
    its own, and only that is written; `results` False: none are read, for who may only write; `progress`: `news` tells
    how far jobs are, too. An async context manager; its methods raise aiokafka's KafkaError where the cluster cannot be
    reached or refuses.
    """

    def __init__(
        self,
        kafka: KafkaSettings,
        catalogue: Catalogue,
        *,
        signing: SigningKey | None = None,
        own_topics: bool = False,
        results: bool = True,
        progress: bool = False,
    ) -> None:
        self._kafka = kafka
        self._catalogue = catalogue
        self._signing = signing
        self._own_topics = own_topics
        self._written: set[str] = set()
        self._producer: AIOKafkaProducer | None = None
        self._topics = (catalogue.progress, catalogue.results) if progress else (catalogue.results,)
        self._reader: AIOKafkaConsumer | None = log_consumer(kafka, follow=True) if results else None

    async def __aenter__(self) -> Self:
        """Raises LogUnavailable where there is no topic of results."""
        try:
            if self._reader is not None:
                await require_topics(self._kafka, self._topics)
                await self._reader.start()
                read = [each for topic in self._topics for each in _partitions(topic, self._catalogue)]
                self._reader.assign(read)
                await self._reader.seek_to_end(*read)
                for partition in read:
                    await self._reader.position(partition)  # resolves the seek now: what is published later is read
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        seconds = self._kafka.close_timeout_ms / 1000
        for client in (self._producer, self._reader):
            if client is not None:
                await stop_client(client, seconds)

    async def submit(self, requests: Iterable[GenerationRequest]) -> None:
        """Publish the requests; on return the cluster has acknowledged each."""
        await self.publish((request.tenant, encode(request)) for request in requests)

    async def cancel(self, names: Iterable[tuple[str, str]]) -> None:
        """Ask that each named (tenant, request id) ends, also while it runs; on return the cluster has the asking. What
        has ended stays as it ended. Raises pydantic.ValidationError where a name can be no request's."""
        asked = [CancelRequest(tenant=tenant, request_id=request_id, cancel=True) for tenant, request_id in names]
        await self.publish((each.tenant, encode(each)) for each in asked)

    async def publish(self, records: Iterable[tuple[str, bytes]]) -> None:
        """Publish (tenant, value) records as they are, well-formed or not. Raises LogUnavailable where their topic is
        missing, or this client may not know of it."""
        records = list(records)
        topics = {tenant: self._topic_of(tenant) for tenant, _ in records}
        producer = await self._producer_of(set(topics.values()))
        sends = [
            await producer.send(topics[tenant], value, key=tenant.encode(), headers=self._proof(value))
            for tenant, value in records
        ]
        await asyncio.gather(*sends)

    async def _producer_of(self, topics: set[str]) -> AIOKafkaProducer:
        """Made when it is needed: who only reads may not have one."""
        if not topics <= self._written:
            cure = _GIVE_A_TOPIC if self._own_topics else CREATE_TOPICS
            await require_topics(self._kafka, sorted(topics), cure)
            self._written |= topics
        if self._producer is None:
            self._producer = idempotent_producer(self._kafka)
            await self._producer.start()
        return self._producer

    def _topic_of(self, tenant: str) -> str:
        return self._catalogue.tenant_requests(tenant) if self._own_topics else self._catalogue.requests

    def _proof(self, value: bytes) -> list[tuple[str, bytes]]:
        if self._signing is None:
            return []
        signature = self._signing.sign(value, self._catalogue.settings.prefix, time.time_ns() // 1_000_000)
        return [(HEADER_SIGNATURE, signature)]

    async def poll(self, timeout_seconds: float = 0.2) -> list[GenerationResult]:
        """The results that arrived since the last call; waits for the first up to `timeout_seconds`."""
        return [each for each in await self.news(timeout_seconds) if not isinstance(each, ProgressEvent)]

    async def news(self, timeout_seconds: float = 0.2) -> list[ProgressEvent | GenerationResult]:
        """The same, and before them how far jobs are, where that is read."""
        assert self._reader is not None, "opened without results"
        batches = await self._reader.getmany(timeout_ms=int(timeout_seconds * 1000))
        records = [record for each in batches.values() for record in each]
        found = [self._event(record) for record in sorted(records, key=lambda record: self._topics.index(record.topic))]
        return [event for event in found if event is not None]

    def _event(self, record: ConsumerRecord) -> ProgressEvent | GenerationResult | None:
        if record.topic == self._catalogue.results:
            return _read(record.value)
        try:
            return decode_progress(record.value or b"")
        except Undecodable:
            return None

    async def follow(self, names: Iterable[tuple[str, str]], timeout_seconds: float) -> AsyncIterator[GenerationResult]:
        """The result of each named (tenant, request id), as they end. Stops early after `timeout_seconds`."""
        waiting = set(names)
        deadline = time.monotonic() + timeout_seconds
        while waiting and time.monotonic() < deadline:
            for result in await self.poll():
                if (result.tenant, result.request_id) in waiting:
                    waiting.discard((result.tenant, result.request_id))
                    yield result


def result_partitions(catalogue: Catalogue) -> list[TopicPartition]:
    return _partitions(catalogue.results, catalogue)


def _partitions(topic: str, catalogue: Catalogue) -> list[TopicPartition]:
    return [TopicPartition(topic, index) for index in range(catalogue.requests_partitions)]


async def read_results(kafka: KafkaSettings, catalogue: Catalogue) -> AsyncIterator[GenerationResult]:
    """Every result that is retained now, in the order of its partition."""
    await require_topics(kafka, [catalogue.results])
    async with aclosing(read_log(kafka, result_partitions(catalogue))) as records:
        async for record in records:
            if (result := _read(record.value)) is not None:
                yield result


def _read(value: bytes | None) -> GenerationResult | None:
    """None of what another than us wrote to the topic: it is nobody's result, and hides nobody's."""
    try:
        return parse_result(value or b"")
    except ValidationError:
        return None
