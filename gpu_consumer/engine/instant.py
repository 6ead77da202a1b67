"""InstantEngine: takes no time and needs no torch. For tests, and for measuring everything around an engine."""

import asyncio
import hashlib
import struct
import time
import zlib
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from gpu_consumer.engine.protocol import (
    NOT_STARTED,
    SEEDS,
    Batch,
    DeviceInfo,
    Drawn,
    Ended,
    EngineDied,
    Event,
    Flaw,
    Item,
    Joined,
    Picture,
    Pulse,
    Ready,
    Share,
)
from schemas.config import GenerationConfig

SIDE = 8  # pixels


@dataclass(slots=True)
class _Life:
    config: GenerationConfig
    item: Item
    ends: float = 0.0
    company: int = 1


class InstantEngine:
    """An Engine whose pictures are eight by eight pixels of a hash of (config hash, prompts, seed).

    `batch_seconds` is how long an item has a slot, and so how long a full bucket takes; at 0 it is drawn when it is
    sent. It makes PNG, whatever the configuration says. `clock` gives monotonic seconds.
    """

    def __init__(self, batch_seconds: float = 0.0, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._batch_seconds = batch_seconds
        self._clock = clock
        self._waiting: deque[_Life] = deque()
        self._running: dict[str, _Life] = {}
        self._events: list[Event] = []
        self._changed = asyncio.Event()
        self._models: tuple[str, ...] = ()
        self._death = NOT_STARTED
        self._joined: frozenset[str] = frozenset()
        self._alive = False
        self.starts = 0

    @property
    def alive(self) -> bool:
        return self._alive

    async def start(self) -> Ready:
        self.die()
        self._changed = asyncio.Event()  # of the loop that runs now
        self._joined = frozenset()
        self._models = ()
        self._events = [Pulse("nothing")]
        self._alive = True
        self.starts += 1
        return Ready(DeviceInfo("instant", "instant-0", 0), {})

    async def submit(self, batch: Batch) -> None:
        self._refuse_if_dead()
        assert batch.config.batching == "step" or len(batch.items) <= batch.config.bucket
        self._waiting += [_Life(batch.config, item) for item in batch.items]
        self._advance()

    async def leave(self, keys: Collection[str]) -> None:
        self._refuse_if_dead()
        self._advance()
        gone = [self._running.pop(key) for key in keys if key in self._running]
        waiting = [life for life in self._waiting if life.item.key in keys]
        self._waiting = deque(life for life in self._waiting if life.item.key not in keys)
        self._events += [Ended(life.item.key, None, Share()) for life in (*gone, *waiting)]
        self._advance()

    async def events(self) -> Sequence[Event]:
        while True:
            if self._alive:
                self._advance()
            if self._events:
                events, self._events = self._events, []
                return events
            self._refuse_if_dead()
            self._changed.clear()
            wait = min((life.ends for life in self._running.values()), default=None)
            try:
                async with asyncio.timeout(None if wait is None else max(0.0, wait - self._clock())):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def stop(self) -> None:
        self.die()
        self._death = NOT_STARTED
        self._events = []

    def die(self) -> None:
        """As if the process had been killed: what runs is lost, and start makes a new one."""
        if not self._alive:
            return
        self._advance()
        self._joined = frozenset(self._running)
        self._death = "the engine was killed"
        self._alive = False
        self._waiting.clear()
        self._running.clear()
        self._changed.set()

    def _refuse_if_dead(self) -> None:
        if not self._alive:
            raise EngineDied(self._death, joined=self._joined)

    def _advance(self) -> None:
        """Do all that should have been done by now, each thing at its own time."""
        now = self._clock()
        before = len(self._events)
        self._join(now)
        while self._running and (moment := min(life.ends for life in self._running.values())) <= now:
            done = [life for life in self._running.values() if life.ends <= moment]
            for life in done:
                del self._running[life.item.key]
            self._events.append(Drawn(tuple(life.item.key for life in done)))
            self._events += [self._ended(life) for life in done]
            self._join(moment)
        if len(self._events) > before:
            self._events.append(self._look())
            self._changed.set()

    def _join(self, now: float) -> None:
        """Strictly in order; another kind waits until everything before it has ended."""
        joining: list[_Life] = []
        while self._waiting:
            head = self._waiting[0].config
            running = next(iter(self._running.values()), None)
            if running is not None and (running.config.kind != head.kind or not self._room(head, joining)):
                break
            life = self._waiting.popleft()
            life.ends = now + self._batch_seconds
            self._models = (head.model_key,)
            self._running[life.item.key] = life
            joining.append(life)
        if joining:
            for life in joining:
                life.company = len(self._running)
            self._events.append(Joined(tuple(life.item.key for life in joining)))

    def _room(self, config: GenerationConfig, joining: Sequence[_Life]) -> bool:
        """A slot is free; and what runs whole starts together."""
        started_before = len(self._running) > len(joining)
        return len(self._running) < config.bucket and not (config.batching == "whole" and started_before)

    def _look(self) -> Pulse:
        config = next((life.config for life in self._running.values()), None)
        if config is None:
            return Pulse("nothing", models=self._models)
        return Pulse("step", config.kind, config.bucket, len(self._running), models=self._models)

    def _ended(self, life: _Life) -> Ended:
        seconds = self._batch_seconds / life.company
        timings = {"text": 0.0, "denoise": seconds, "decode": 0.0, "encode": 0.0}
        share = Share(timings, seconds, batch_size=life.company, bucket=life.config.bucket)
        if life.item.seed not in SEEDS:
            message = f"the seed {life.item.seed} does not fit 64 bits"
            return Ended(life.item.key, Flaw(life.item.key, "generation_error", message), share)
        return Ended(life.item.key, _picture(life.config, life.item), share)


def _picture(config: GenerationConfig, item: Item) -> Picture:
    words = (config.config_hash, item.prompt, item.negative_prompt, str(item.seed))
    seed = hashlib.sha256("\0".join(words).encode("utf-8", "surrogatepass")).digest()
    pixels = hashlib.shake_128(seed).digest(SIDE * SIDE * 3)
    return Picture(
        key=item.key,
        data=png(SIDE, SIDE, pixels),
        content_type="image/png",
        extension="png",
        width=SIDE,
        height=SIDE,
        bucket=config.bucket,
    )


def png(width: int, height: int, pixels: bytes) -> bytes:
    """A PNG (ISO/IEC 15948) of 8-bit RGB rows from the top, unfiltered."""
    stride = 3 * width
    rows = b"".join(b"\0" + pixels[row * stride : (row + 1) * stride] for row in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows, 1)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in parts
    )
