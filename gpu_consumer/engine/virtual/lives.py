"""Who is on a virtual device: the steps that each has left, what it has cost, and the picture that it gets."""

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from gpu_consumer.engine.instant import SIDE, png
from gpu_consumer.engine.protocol import Item, Picture, Share
from gpu_consumer.engine.stepwise.slots import Slots
from schemas.config import GenerationConfig


@dataclass(slots=True)
class Life:
    """`company`: pictures beside it, itself included, summed over its steps. `seconds`: of the device, by stage."""

    config: GenerationConfig
    item: Item
    batch: int
    steps_left: int
    heard: bool = False
    company: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def share(self, bucket: int, used_bytes: int) -> Share:
        steps = self.config.steps - self.steps_left
        return Share(
            timings={**self.seconds, "encode": 0.0},  # beside the device, whose time this is
            gpu_seconds=sum(self.seconds.values()),
            peak_vram_bytes=used_bytes if steps else 0,
            batch_size=max(1, round(self.company / steps)) if steps else 1,
            bucket=bucket,
        )


@dataclass(slots=True)
class Session:
    """`config` is that of whoever came first: the rest agree with it in all that matters here."""

    config: GenerationConfig
    batch: int
    bucket: int
    slots: Slots
    steps: int = 0
    seconds: float = 0.0


def charge(lives: Sequence[Life], stage: str, seconds: float) -> float:
    """Share `seconds` among them; the same seconds."""
    for life in lives:
        life.seconds[stage] += seconds / len(lives)
    return seconds


def picture(config: GenerationConfig, item: Item, bucket: int) -> Picture:
    """A square of one colour, a hash of (config hash, prompts, seed, bucket)."""
    words = (config.config_hash, item.prompt, item.negative_prompt, str(item.seed), str(bucket))
    colour = hashlib.sha256("\0".join(words).encode("utf-8", "surrogatepass")).digest()[:3]
    return Picture(item.key, png(SIDE, SIDE, colour * SIDE**2), "image/png", "png", SIDE, SIDE, bucket)
