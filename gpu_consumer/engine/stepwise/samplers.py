"""One request's way from noise to latents: a diffusers scheduler object and a CPU generator of its own."""

import copy
import inspect
from collections.abc import Mapping
from typing import Any

import torch
from diffusers.utils.torch_utils import randn_tensor

from gpu_consumer.engine.stepwise.request import Request
from gpu_consumer.models.families import fresh_scheduler


class Schedulers:
    """Fresh scheduler objects of one model. Each copies one that was never run, in a fifth of the time of a new one."""

    def __init__(self, noise_schedule: Mapping[str, Any]) -> None:
        self._noise_schedule = noise_schedule
        self._unused: dict[str, Any] = {}

    def fresh(self, name: str) -> Any:
        if name not in self._unused:
            self._unused[name] = fresh_scheduler(name, self._noise_schedule)
        return copy.deepcopy(self._unused[name])


class Sampler:
    """`latents`, (1, *latent_shape), of the model's dtype, on its device: noise at first, then further at each step;
    `steps`: how many were made.

    Timesteps and noise levels stay on the CPU: a scheduler looks them up by value, and each look at a number that lies
    on a card would wait for all the work given to the card before.
    """

    def __init__(
        self,
        request: Request,
        scheduler: Any,
        latent_shape: tuple[int, ...],
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        """`scheduler`: a fresh one of diffusers, the sampler's own from here on."""
        self._scheduler = scheduler
        self._scheduler.set_timesteps(request.steps, device="cpu")
        if hasattr(self._scheduler, "set_begin_index"):
            self._scheduler.set_begin_index(0)
        self._timesteps: torch.Tensor = self._scheduler.timesteps
        self._numbers: list[float] = self._timesteps.tolist()
        self.steps = 0
        generator = torch.Generator("cpu").manual_seed(request.item.seed)
        accepted = inspect.signature(self._scheduler.step).parameters
        self._extra = {"generator": generator} if "generator" in accepted else {}
        noise = randn_tensor((1, *latent_shape), generator=generator, device=device, dtype=dtype)
        self.latents: torch.Tensor = noise * getattr(self._scheduler, "init_noise_sigma", 1.0)

    @property
    def done(self) -> bool:
        return self.steps == len(self._numbers)

    @property
    def timestep(self) -> float:
        """Of the step that comes next, as the model is told it."""
        return float(self._numbers[self.steps])

    def model_input(self) -> torch.Tensor:
        """The latents as the model wants to see them. May be called again for the same step."""
        if not hasattr(self._scheduler, "scale_model_input"):  # flow matching
            return self.latents
        scaled: torch.Tensor = self._scheduler.scale_model_input(self.latents, self._timesteps[self.steps])
        return scaled

    def advance(self, noise: torch.Tensor) -> None:
        """One step along `noise`, (1, *latent_shape), the model's guided prediction."""
        dtype = self.latents.dtype
        stepped = self._scheduler.step(
            noise, self._timesteps[self.steps], self.latents, **self._extra, return_dict=False
        )[0]
        self.latents = stepped.to(dtype)
        self.steps += 1
