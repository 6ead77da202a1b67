"""A model that comes back from host memory, beside a plain copy of as many bytes."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from gpu_consumer.engine.device import Device
from gpu_consumer.engine.host_copy import HostCopy
from gpu_consumer.models.loading import Loaded

_ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Swap:
    """Median seconds, of `bytes` each."""

    bytes: int
    model_seconds: float
    plain_seconds: float

    @property
    def ratio(self) -> float:
        """Of the bandwidths."""
        return self.plain_seconds / self.model_seconds


def swap(loaded: Loaded, device: Device) -> Swap:
    """Both from the same kind of host memory, page-locked on CUDA, into memory that is allocated for it, as it is where
    another model has just left. The model is back on its device at the end.
    """
    place = loaded.pipe.device.type
    pinned = place == "cuda"
    copy = HostCopy(loaded.pipe, pinned=pinned)
    block = torch.ones(copy.bytes, dtype=torch.uint8, pin_memory=pinned)
    model, plain = [], []
    for _ in range(_ROUNDS):
        copy.leave()
        device.empty_cache()
        plain.append(_seconds(lambda: block.to(place, non_blocking=True, copy=True), device))
        device.empty_cache()
        model.append(_seconds(lambda: copy.enter(place), device))
    return Swap(copy.bytes, statistics.median(model), statistics.median(plain))


def _seconds(work: Callable[[], object], device: Device) -> float:
    device.synchronise()
    started = time.perf_counter()
    work()
    device.synchronise()
    return time.perf_counter() - started
