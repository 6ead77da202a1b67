from pathlib import Path

import pytest
import torch

from gpu_consumer.engine.stepwise.samplers import Sampler, Schedulers
from tests.stepwise import NAMES, loaded, request
from tests.tiny import models

__all__ = ["models"]

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


@pytest.mark.parametrize("scheduler", NAMES)
def test_two_samplers_of_one_scheduler_share_nothing(models: Path, scheduler: str) -> None:
    # case DIF-01
    schedulers = Schedulers(loaded(models).scheduler_config)
    noise = torch.linspace(-1, 1, 64).reshape(1, 1, 8, 8)

    def sampler() -> Sampler:
        one = request(scheduler=scheduler, steps=4, seed=3)
        return Sampler(one, schedulers.fresh(scheduler), (1, 8, 8), torch.float32, torch.device("cpu"))

    alone = run(sampler(), noise)
    first, second = sampler(), sampler()
    first.advance(noise)
    first.advance(-noise)
    assert torch.equal(run(second, noise), alone)
    assert not torch.equal(run(first, noise), alone)
    assert torch.equal(run(sampler(), noise), alone)


def run(sampler: Sampler, noise: torch.Tensor) -> torch.Tensor:
    while not sampler.done:
        sampler.model_input()
        sampler.advance(noise)
    return sampler.latents


def test_a_look_at_the_input_changes_nothing(models: Path) -> None:
    schedulers = Schedulers(loaded(models).scheduler_config)
    noise = torch.ones(1, 1, 8, 8)
    for scheduler in NAMES:
        results = []
        for looks in (1, 3):
            one = request(scheduler=scheduler, steps=3)
            sampler = Sampler(one, schedulers.fresh(scheduler), (1, 8, 8), torch.float32, torch.device("cpu"))
            while not sampler.done:
                for _ in range(looks):
                    sampler.model_input()
                sampler.advance(noise)
            results.append(sampler.latents)
        assert torch.equal(*results)
