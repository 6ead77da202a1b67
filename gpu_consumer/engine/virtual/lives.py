"""Who is on a virtual device: the steps that each has left, what it has cost, and the picture that it gets."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from gpu_consumer.engine.bill import Bill
from gpu_consumer.engine.instant import SIDE, png
from gpu_consumer.engine.protocol import Item, Picture, Share
from gpu_consumer.engine.stepwise.slots import Slots
from schemas.config import GenerationConfig


@dataclass(slots=True)
class Life:
    """`bill`: in seconds of the device."""

    config: GenerationConfig
    item: Item
    batch: int
    steps_left: int
    heard: bool = False
    bill: Bill = field(default_factory=Bill)

    def share(self, bucket: int, used_bytes: int) -> Share:
        self.bill.ran_in(bucket)
        if self.steps_left < self.config.steps:
            self.bill.saw(used_bytes)
        share = self.bill.share()
        return replace(share, timings={**share.timings, "encode": 0.0})  # beside the device, whose time this is


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
        life.bill.charge(stage, seconds / len(lives))
    return seconds


def picture(config: GenerationConfig, item: Item, bucket: int) -> Picture:
    """A square of one colour, a hash of (config hash, prompts, seed, bucket)."""
    words = (config.config_hash, item.prompt, item.negative_prompt, str(item.seed), str(bucket))
    colour = hashlib.sha256("\0".join(words).encode("utf-8", "surrogatepass")).digest()[:3]
    return Picture(item.key, png(SIDE, SIDE, colour * SIDE**2), "image/png", "png", SIDE, SIDE, bucket)
