"""What enters the stepwise engine and what leaves it."""

from dataclasses import dataclass, field
from typing import Any, Self

import torch

from gpu_consumer.engine.bill import Bill
from gpu_consumer.engine.protocol import Flaw, Item
from schemas.config import GenerationConfig


@dataclass(frozen=True, slots=True)
class Shape:
    """What all slots of one batch share, beside model and dtype. `bucket`: slots; the model runs twice as many rows."""

    width: int
    height: int
    bucket: int
    frames: int = 1

    @classmethod
    def of(cls, config: GenerationConfig) -> Self:
        return cls(config.width, config.height, config.bucket, config.frames)


@dataclass(frozen=True, slots=True)
class Request:
    """One picture, with what may differ from slot to slot, and what it has cost so far."""

    item: Item
    scheduler: str
    steps: int
    guidance_scale: float
    bill: Bill = field(default_factory=Bill, compare=False)

    @classmethod
    def of(cls, item: Item, config: GenerationConfig) -> Self:
        return cls(item, config.scheduler, config.steps, config.guidance_scale)

    @property
    def key(self) -> str:
        return self.item.key

    @property
    def guided(self) -> bool:
        """As in diffusers: at a scale of 1 or less the negative prompt is not heard."""
        return self.guidance_scale > 1


@dataclass(frozen=True, slots=True)
class Made:
    """A picture: uint8 array (height, width, 3), or of a video (frames, height, width, 3), and the latents
    (1, channels, ...) it was decoded from, on the device."""

    request: Request
    pixels: Any
    latents: torch.Tensor


@dataclass(frozen=True, slots=True)
class Failed:
    """No picture, and why."""

    request: Request
    flaw: Flaw


Ended = Made | Failed
