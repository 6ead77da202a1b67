"""The pools' groups as the broker has them: what is committed, where the partitions begin and end, who is a member."""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Mapping

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from infra.scaler.book import Book, Place
from infra.scaling.keda import Partition
from schemas.errors import told
from schemas.topics import Catalogue
from streams.kafka.clients import admin_client, log_consumer, look_up, stop_client
from streams.kafka.groups import members_of
from streams.kafka.lag import committed_offsets
from streams.kafka.renewal import is_consumer
from streams.kafka.settings import KafkaSettings

_LOG = logging.getLogger(__name__)


class Groups:
    """For one task: `run`. `changed` hears of each pool that was looked at."""

    def __init__(
        self,
        kafka: KafkaSettings,
        catalogue: Catalogue,
        books: Mapping[str, Book],
        look_seconds: float,
        changed: Callable[[str], None],
    ) -> None:
        self._kafka = kafka
        self._catalogue = catalogue
        self._books = books
        self._look_seconds = look_seconds
        self._changed = changed
        self._looked: dict[str, float] = {}
        self._members: dict[str, int] = {}
        self._trouble: str | None = None

    def age_seconds(self, pool: str) -> float:
        """Since the pool's offsets were seen; inf before they were once."""
        return time.monotonic() - self._looked.get(pool, -math.inf)

    def consumers(self, pool: str) -> int:
        """Members of the pool's group, as last seen. They join when they can work."""
        return self._members.get(pool, 0)

    async def run(self) -> None:
        """Look again and again until cancelled, with clients made anew after each trouble."""
        while True:
            admin, reader = admin_client(self._kafka), log_consumer(self._kafka)
            try:
                async with asyncio.timeout(self._kafka.request_timeout_ms / 1000):
                    await admin.start()
                    await reader.start()
                while True:
                    async with asyncio.timeout(self._kafka.request_timeout_ms / 1000):
                        await self._look(admin, reader)
                    self._trouble = None
                    await asyncio.sleep(self._look_seconds)
            except (KafkaError, OSError, TimeoutError) as error:
                if self._trouble is None:
                    _LOG.warning("the pools' offsets cannot be seen for now: %s", told(error))
                self._trouble = told(error)
            finally:
                await stop_client(reader, self._kafka.close_timeout_ms / 1000)
                await admin.close()
            await asyncio.sleep(self._look_seconds)

    async def _look(self, admin: AIOKafkaAdminClient, reader: AIOKafkaConsumer) -> None:
        where = {
            TopicPartition(self._catalogue.work(pool, at.lane), at.index): (pool, at)
            for pool, book in self._books.items()
            for at in book.places
        }
        # Ends after the offsets: a lag may be told too high for a moment, never too low.
        watermarks = {pool: book.watermarks() for pool, book in self._books.items()}
        committed = {pool: await committed_offsets(admin, self._catalogue.gpu_group(pool)) for pool in self._books}
        look_up(reader, list(where))
        begins = await reader.beginning_offsets(list(where))
        ends = await reader.end_offsets(list(where))
        seen: dict[str, dict[Place, Partition]] = {pool: {} for pool in self._books}
        for tp, (pool, at) in where.items():
            found = committed[pool].get(tp)
            offset = None if found is None or found.offset < 0 else found.offset
            seen[pool][at] = Partition(offset, begins[tp], ends[tp])
        now = time.monotonic()
        for pool, offsets in seen.items():
            self._books[pool].look(offsets, watermarks[pool])
            self._looked[pool] = now
            self._changed(pool)
        groups = {self._catalogue.gpu_group(pool): pool for pool in self._books}
        for group, members in (await members_of(admin, list(groups))).items():
            self._members[groups[group]] = sum(map(is_consumer, members))
