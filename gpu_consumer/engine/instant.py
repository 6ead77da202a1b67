"""InstantEngine: takes no time and needs no torch. For tests, and for measuring everything around an engine."""

import asyncio
import hashlib
import struct
import zlib

from gpu_consumer.engine.protocol import (
    SEEDS,
    Batch,
    DeviceInfo,
    EngineDied,
    Finished,
    Flaw,
    Item,
    Picture,
    Ready,
)
from schemas.config import GenerationConfig

SIDE = 8  # pixels


class InstantEngine:
    """An Engine whose pictures are eight by eight pixels of a hash of (config hash, prompts, seed).

    `batch_seconds` is how long a batch is made to take. It makes PNG, whatever the configuration says.
    """

    def __init__(self, batch_seconds: float = 0.0) -> None:
        self._batch_seconds = batch_seconds
        self._alive = False
        self.starts = 0
        self.batches = 0

    @property
    def alive(self) -> bool:
        return self._alive

    async def start(self) -> Ready:
        self._alive = True
        self.starts += 1
        return Ready(DeviceInfo("instant", "instant-0", 0), {})

    async def run(self, batch: Batch) -> Finished:
        assert 1 <= len(batch.items) <= batch.config.bucket
        if not self._alive:
            raise EngineDied("the engine is not started; start it", running=False)
        if self._batch_seconds:
            await asyncio.sleep(self._batch_seconds)
        if not self._alive:
            raise EngineDied("the engine was killed", running=True)
        self.batches += 1
        return Finished(
            number=batch.number,
            pictures=tuple(_picture(batch.config, item) for item in batch.items if item.seed in SEEDS),
            flaws=tuple(
                Flaw(item.key, "generation_error", f"the seed {item.seed} does not fit 64 bits")
                for item in batch.items
                if item.seed not in SEEDS
            ),
            timings={"text": 0.0, "denoise": self._batch_seconds, "decode": 0.0, "encode": 0.0},
            gpu_seconds=self._batch_seconds,
            peak_vram_bytes=0,
            bucket=batch.config.bucket,
        )

    async def stop(self) -> None:
        self._alive = False

    def die(self) -> None:
        """As if the process had been killed: what runs is lost, and start makes a new one."""
        self._alive = False


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
