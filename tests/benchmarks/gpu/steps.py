"""The time of one denoising step by batch and size, and what of the device's arithmetic it reaches."""

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch.utils.flop_counter import FlopCounterMode

from gpu_consumer.engine.stepwise.families import STEP_FAMILIES
from gpu_consumer.engine.stepwise.request import Shape
from gpu_consumer.models.loading import Loaded

_ROUNDS = 5


@dataclass(frozen=True, slots=True)
class StepTime:
    """`utilisation`: the step's floating-point operations a second over those of one large matrix product here."""

    size: int
    bucket: int
    seconds: float
    utilisation: float


def step_times(
    loaded: Loaded, sizes: tuple[int, ...], buckets: tuple[int, ...], synchronise: Callable[[], None]
) -> Iterator[StepTime]:
    peak = _matmul_flops(loaded.pipe.dtype, loaded.pipe.device, synchronise)
    for size in sizes:
        for bucket in buckets:
            step = _step(loaded, Shape(size, size, bucket))
            counter = FlopCounterMode(display=False)
            with counter:
                step()
            seconds = _median(step, synchronise)
            yield StepTime(size, bucket, seconds, counter.get_total_flops() / seconds / peak)


def _step(loaded: Loaded, shape: Shape) -> Callable[[], torch.Tensor]:
    """The model's call of one guided step: twice the bucket's rows."""
    family = STEP_FAMILIES[loaded.family.pipeline_class]
    rows = 2 * shape.bucket
    with torch.no_grad():
        encoded = loaded.family.encode(loaded.pipe, ["a red circle"] * rows, [""] * rows, False)
        conditioning = family.condition(encoded, rows, shape)
    like = {"dtype": loaded.pipe.dtype, "device": loaded.pipe.device}
    latents = torch.randn(rows, *family.latent_shape(loaded.pipe, shape), **like)
    timesteps = torch.full((rows,), 500.0, device=loaded.pipe.device)

    @torch.no_grad()
    def step() -> torch.Tensor:
        return family.predict(loaded.pipe, latents, timesteps, conditioning)

    return step


def _matmul_flops(dtype: torch.dtype, device: torch.device, synchronise: Callable[[], None]) -> float:
    """Operations a second of one large square product of this type, the best that this device does with them."""
    side = 8192 if device.type == "cuda" else 1024
    left, right = (torch.randn(side, side, dtype=dtype, device=device) for _ in range(2))
    return 2 * side**3 / _median(lambda: left @ right, synchronise)


def _median(work: Callable[[], torch.Tensor], synchronise: Callable[[], None]) -> float:
    work()
    seconds = []
    for _ in range(_ROUNDS):
        synchronise()
        started = time.perf_counter()
        work()
        synchronise()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)
