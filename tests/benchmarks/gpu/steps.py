"""The time of one denoising step by batch and size, and the arithmetic in it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch.utils.flop_counter import FlopCounterMode

from gpu_consumer.engine.stepwise.families import STEP_FAMILIES
from gpu_consumer.engine.stepwise.request import Shape
from gpu_consumer.models.loading import Loaded
from tests.benchmarks.gpu.peak import median_seconds


@dataclass(frozen=True, slots=True)
class StepTime:
    """`flops`: floating-point operations of the whole step, counted from the shapes of its operators."""

    size: int
    bucket: int
    seconds: float
    flops: int

    @property
    def flops_per_second(self) -> float:
        return self.flops / self.seconds


def step_times(
    loaded: Loaded, sizes: tuple[int, ...], buckets: tuple[int, ...], synchronise: Callable[[], None]
) -> Iterator[StepTime]:
    for size in sizes:
        for bucket in buckets:
            step = guided_step(loaded, Shape(size, size, bucket))
            counter = FlopCounterMode(display=False)
            with counter:
                step()
            yield StepTime(size, bucket, median_seconds(step, synchronise), counter.get_total_flops())


def guided_step(loaded: Loaded, shape: Shape) -> Callable[[], torch.Tensor]:
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
