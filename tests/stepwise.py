"""The stepwise engine over a tiny model, for its tests: built by hand, and run to the end of what is in it."""

import hashlib
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

from gpu_consumer.engine.device import CpuDevice, Device
from gpu_consumer.engine.encode import encode_image
from gpu_consumer.engine.protocol import Item
from gpu_consumer.engine.stepwise.loop import Stepwise
from gpu_consumer.engine.stepwise.request import Ended, Failed, Made, Request, Shape
from gpu_consumer.models.families import SCHEDULERS
from gpu_consumer.models.loading import Loaded, load
from tests.tiny import tiny_config

ROOMY = 1 << 30
SHAPE = Shape(width=64, height=64, bucket=3)
# The flow-match schedule belongs to transformers, which are not among the tiny models.
NAMES = [name for name in SCHEDULERS if name != "flow-match-euler"]


@cache
def loaded(models: Path, family: str = "sd15", dtype: str = "float32") -> Loaded:
    """Shared: a test that spoils it takes `load` instead."""
    return fresh(models, family, dtype)


def fresh(models: Path, family: str = "sd15", dtype: str = "float32") -> Loaded:
    return load(tiny_config(models, family, dtype=dtype), models, "cpu")


def stepwise(model: Loaded, shape: Shape = SHAPE, device: Device | None = None, **different: Any) -> Stepwise:
    return Stepwise(device or CpuDevice(ROOMY), model, shape, **different)


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
    return hashlib.sha256(encode_image(picture.pixels, "png", 90)).hexdigest()
