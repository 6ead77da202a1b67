"""The stepwise engine over a tiny model, for its tests: built by hand, and run to the end of what is in it."""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from gpu_consumer.engine.device import CpuDevice, Device
from gpu_consumer.engine.encode import encode
from gpu_consumer.engine.protocol import Item
from gpu_consumer.engine.stepwise.loop import Stepwise
from gpu_consumer.engine.stepwise.request import Ended, Failed, Made, Request, Shape
from gpu_consumer.models.families import FAMILIES, SCHEDULERS
from gpu_consumer.models.loading import Loaded, load
from schemas.config import ImageFormat
from tests.tiny import tiny_config

ROOMY = 1 << 30
SHAPE = Shape(width=64, height=64, bucket=3)
FRAMES = 2
NAMES = [name for name in SCHEDULERS if name != "flow-match-euler"]
# Each family, and each scheduler that it takes.
PAIRS = [
    (family, scheduler) for family in FAMILIES for scheduler in (NAMES if family != "sd3" else ["flow-match-euler"])
]


def shape_of(model: Loaded, bucket: int = SHAPE.bucket) -> Shape:
    return replace(SHAPE, bucket=bucket, frames=FRAMES if model.family.video else 1)


@cache
def loaded(models: Path, family: str = "sd15", dtype: str = "float32") -> Loaded:
    """Shared: a test that spoils it takes `load` instead."""
    return fresh(models, family, dtype)


def fresh(models: Path, family: str = "sd15", dtype: str = "float32") -> Loaded:
    return load(tiny_config(models, family, dtype=dtype), models, "cpu")


def stepwise(model: Loaded, shape: Shape | None = None, device: Device | None = None, **different: Any) -> Stepwise:
    return Stepwise(device or CpuDevice(ROOMY), model, shape or shape_of(model), **different)


def request(
    key: str = "a",
    prompt: str = "a red circle",
    negative: str = "",
    seed: int = 0,
    *,
    scheduler: str = "euler",
    steps: int = 3,
    guidance_scale: float = 5.0,
) -> Request:
    return Request(Item(key, prompt, negative, seed), scheduler, steps, guidance_scale)


def finish(engine: Stepwise, between: Callable[[int], None] = lambda _: None) -> dict[str, Ended]:
    """Step until nothing is here; `between` is called before each step with its number."""
    ended: dict[str, Ended] = {}
    step = 0
    while True:
        between(step)
        if engine.idle:
            return ended
        ended |= by_key(engine.step())
        step += 1


def by_key(ended: Iterable[Ended]) -> dict[str, Ended]:
    return {one.request.key: one for one in ended}


def made(ended: Ended) -> Made:
    assert isinstance(ended, Made), ended
    return ended


def failed(ended: Ended) -> Failed:
    assert isinstance(ended, Failed), ended
    return ended


def sha256(picture: Made) -> str:
    """Of the PNG or the MP4."""
    image_format: ImageFormat = "mp4" if picture.pixels.ndim == 4 else "png"
    return hashlib.sha256(encode(picture.pixels, image_format, 90, 8)).hexdigest()
