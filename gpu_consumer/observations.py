"""What batches take, told to every engine of the same device: ours is published, theirs read. Nobody waits for it."""

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

from aiokafka import AIOKafkaProducer

from gpu_consumer.engine.protocol import Peak
from gpu_consumer.memory import quantile_of
from schemas.codec import encode
from schemas.demand import DEMAND_PREFIX
from schemas.errors import Undecodable
from schemas.observation import Observation, decode_observation
from streams.kafka.log import Record
from streams.kafka.periodic import failure_of, publish_for_ever
from streams.kafka.settings import KafkaSettings
from streams.kafka.view import CompactedView

_LOG = logging.getLogger(__name__)
_QUANTILE = 0.95
_KEPT = 1024  # of each: far above the kinds and configurations that one device serves


class Key(NamedTuple):
    kind: str
    bucket: int
    config_hash: str


@dataclass(slots=True)
class _Window:
    peaks: deque[int]
    seconds: deque[float]


@dataclass(slots=True)
class _Noted:
    """The last measures of each key, and which keys have something new to tell."""

    window: int
    windows: OrderedDict[Key, _Window] = field(default_factory=OrderedDict)
    news: dict[Key, None] = field(default_factory=dict)

    def add(self, key: Key, peak_bytes: int, gpu_seconds: float) -> None:
        if key not in self.windows:
            self.windows[key] = _Window(deque(maxlen=self.window), deque(maxlen=self.window))
        self.windows.move_to_end(key)
        self.windows[key].peaks.append(peak_bytes)
        self.windows[key].seconds.append(gpu_seconds)
        self.news[key] = None
        while len(self.windows) > _KEPT:
            forgotten, _ = self.windows.popitem(last=False)
            self.news.pop(forgotten, None)


class Observations:
    """For one loop. `device`: the product of ours; only what was measured on the same is heard. `pool`: ours, told with
    each, for admission's prices.

    A key is published once in `period_seconds` at most, its newest state alone. A broker that is away makes it late.
    """

    def __init__(
        self,
        kafka: KafkaSettings,
        topic: str,
        device: str,
        *,
        pool: str = "",
        period_seconds: float = 30.0,
        window: int = 64,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._kafka = kafka
        self._topic = topic
        self._device = device
        self._pool = pool
        self._period_seconds = period_seconds
        self._now = now
        self._noted = _Noted(window)
        self._told: OrderedDict[Key, int] = OrderedDict()
        self._view = CompactedView(kafka, topic, self._fold)
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to read and to publish, in tasks of its own. Does not wait for the broker."""
        await self._view.start()
        work = publish_for_ever(self._kafka, self._period_seconds, self._publish, "observations are")
        self._task = asyncio.create_task(work, name="observations")

    async def stop(self) -> None:
        """What was noted last may stay untold. Bounded by kafka.close_timeout_ms, twice."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        await self._view.stop()

    @property
    def failure(self) -> Exception | None:
        """Why nothing is told, or read, any more."""
        return failure_of(self._task) or self._view.failure

    def note(self, kind: str, bucket: int, config_hash: str, peak_bytes: int, gpu_seconds: float) -> None:
        """A batch was measured: its peak beside the weights, and the GPU-seconds of one of its pictures. Never blocks.

        A peak of 0 is no measure of memory: the device has no account of it. Its seconds are told all the same.
        """
        self._noted.add(Key(kind, bucket, config_hash), peak_bytes, gpu_seconds)

    def peaks(self) -> tuple[Peak, ...]:
        """The largest of what engines of this device tell of each kind and bucket, ours before a restart included."""
        most: dict[tuple[str, int], int] = {}
        for key, bytes_ in self._told.items():
            most[key.kind, key.bucket] = max(bytes_, most.get((key.kind, key.bucket), 0))
        return tuple(Peak(kind, bucket, bytes_) for (kind, bucket), bytes_ in most.items())

    def _fold(self, record: Record) -> None:
        if record.value is None or (record.key or b"").startswith(DEMAND_PREFIX):
            return
        try:
            observation = decode_observation(record.value)
        except Undecodable as error:  # of a later release, or nobody's: what we do not understand changes nothing
            _LOG.info("an observation at offset %d is passed over: %s", record.offset, error)
            return
        if observation.device != self._device or observation.peak_bytes == 0:
            return
        key = Key(observation.kind, observation.bucket, observation.config_hash)
        self._told[key] = observation.peak_bytes
        self._told.move_to_end(key)
        while len(self._told) > _KEPT:
            self._told.popitem(last=False)

    async def _publish(self, producer: AIOKafkaProducer) -> None:
        """Tell all that is new; what fails is new again. Raises KafkaError, TimeoutError."""
        news, self._noted.news = self._noted.news, {}
        try:
            async with asyncio.timeout(self._kafka.request_timeout_ms / 1000):
                for key in news:
                    observation = self._observation(key, self._noted.windows[key])
                    await producer.send_and_wait(self._topic, encode(observation), key=observation.key)
        except BaseException:
            self._noted.news = news | self._noted.news
            raise

    def _observation(self, key: Key, window: _Window) -> Observation:
        return Observation(
            device=self._device,
            pool=self._pool,
            kind=key.kind,
            bucket=key.bucket,
            config_hash=key.config_hash,
            peak_bytes=quantile_of(window.peaks, _QUANTILE),
            gpu_seconds=quantile_of(window.seconds, _QUANTILE),
            count=len(window.peaks),
            at=self._now(),
        )
