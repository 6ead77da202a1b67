"""What is asked for: many configurations of fewer models, a few of them most of the time."""

import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

from infra.planner.request import Request
from schemas.config import GenerationConfig, ModelRef, Price

CONFIGS, MODELS = 935, 86  # as counted in a public trace of a text-to-image service
SKEW = 1.0  # the n-th most popular is asked for 1 / n**SKEW as often as the first


def configs(seed: int, bucket: int, gpu_seconds: float) -> list[GenerationConfig]:
    """The most popular first. Each model has one at least, the others fall to the models by their popularity."""
    draw = random.Random(seed)
    weights = [1 / (rank + 1) ** SKEW for rank in range(MODELS)]
    models = [*range(MODELS), *draw.choices(range(MODELS), weights, k=CONFIGS - MODELS)]
    draw.shuffle(models)
    return [_config(number, model, bucket, gpu_seconds) for number, model in enumerate(models)]


def poisson(
    configs: Sequence[GenerationConfig], rates: Mapping[float, float], seconds: float, seed: int
) -> Iterator[Request]:
    """Requests for so long, each of a configuration by its popularity; `rates`: a second, from each moment on."""
    draw = random.Random(seed)
    weights = list(accumulate(1 / (rank + 1) ** SKEW for rank in range(len(configs))))
    number = 0
    for now, until, rate in zip(rates, [*list(rates)[1:], seconds], rates.values(), strict=True):
        while (now := now + draw.expovariate(rate)) < until:
            yield Request(number, now, draw.choices(configs, cum_weights=weights)[0])
            number += 1


def _config(number: int, model: int, bucket: int, gpu_seconds: float) -> GenerationConfig:
    return GenerationConfig(
        name=f"c{number}",
        version=1,
        family="sd15",
        model=ModelRef(name=f"m{model}", digest=f"sha256:{model:016x}{0:048}"),
        steps=1 + number % 500,
        guidance_scale=1 + number // 500,
        width=512,
        height=512,
        bucket=bucket,
        batching="whole",
        max_images=1,
        price=Price(gpu_seconds=gpu_seconds, vram_bytes=1 << 30),
    )
