"""The padded batch the model sees: a row a slot without guidance's help, then a row a slot with the prompt."""

from collections.abc import Mapping
from typing import Any

import torch

from gpu_consumer.engine.stepwise.families.base import Rows, StepFamily
from gpu_consumer.engine.stepwise.request import Shape
from gpu_consumer.engine.stepwise.samplers import Sampler


class Batch:
    """2 x bucket rows in diffusers' order: first what the negative prompts condition, then what the prompts do.

    Rows of a slot that is not asked for are zeros or left from before: no row of the model sees another.
    """

    def __init__(self, pipe: Any, family: StepFamily, shape: Shape) -> None:
        self._pipe = pipe
        self._family = family
        self._bucket = shape.bucket
        self.latent_shape = family.latent_shape(pipe, shape)
        self.device: torch.device = pipe.device
        self.dtype: torch.dtype = pipe.dtype
        self._conditioning: dict[str, torch.Tensor] = {}
        self._scales = torch.ones(self._bucket, *[1] * len(self.latent_shape), dtype=torch.float32, device=self.device)
        self._guided = [False] * self._bucket
        self._nothing = torch.zeros(1, *self.latent_shape, dtype=self.dtype, device=self.device)

    def place(self, slot: int, positive: Rows, negative: Rows | None, guidance_scale: float) -> None:
        """Condition `slot` from here on. No `negative`: unguided, and both of its rows hear the prompt."""
        for name, row in positive.items():
            if name not in self._conditioning:
                self._conditioning[name] = row.new_zeros(2 * self._bucket, *row.shape[1:])
            rows = self._conditioning[name]
            rows[slot] = (negative or positive)[name][0]
            rows[self._bucket + slot] = row[0]
        self._scales[slot] = guidance_scale
        self._guided[slot] = negative is not None

    def predict(self, samplers: Mapping[int, Sampler]) -> dict[int, torch.Tensor]:
        """Slot -> the guided noise of its sampler's next step, (1, *latent_shape). Changes nothing."""
        inputs = [samplers[slot].model_input() if slot in samplers else self._nothing for slot in range(self._bucket)]
        numbers = [samplers[slot].timestep if slot in samplers else 0.0 for slot in range(self._bucket)]
        # Pageable memory is staged before the call returns, so this never waits for the device.
        timesteps = torch.tensor(numbers * 2, dtype=torch.float32).to(self.device, non_blocking=True)
        noise = self._family.predict(self._pipe, torch.cat(inputs * 2), timesteps, self._conditioning)
        unconditional, conditional = noise.chunk(2)
        # A scale as a tensor of the model's type would be rounded to it; diffusers multiplies by a Python number, in
        # float32. This is the same, for all slots at once.
        push = ((conditional - unconditional).float() * self._scales).to(noise.dtype)
        guided = unconditional + push
        return {slot: (guided if self._guided[slot] else conditional)[slot : slot + 1] for slot in samplers}
