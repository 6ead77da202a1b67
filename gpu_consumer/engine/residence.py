"""Which model is on the device: one at a time, and the former one is gone before the next is read."""

import gc
from pathlib import Path

import torch

from gpu_consumer.engine.device import Device
from gpu_consumer.models.digests import ModelUnavailable
from gpu_consumer.models.loading import Loaded, load
from schemas.config import GenerationConfig


class Residence:
    def __init__(self, device: Device, models_directory: Path) -> None:
        self._device = device
        self._models_directory = models_directory
        self._loaded: Loaded | None = None

    @property
    def key(self) -> str | None:
        """The model key on the device."""
        return self._loaded.key if self._loaded else None

    @property
    def weights_bytes(self) -> int:
        """Of all models on the device."""
        return self._loaded.weights_bytes if self._loaded else 0

    def take(self, config: GenerationConfig) -> tuple[Loaded, float]:
        """The model of `config`, and the seconds its loading took, 0 if it was there. Blocks while it loads.

        Raises ModelUnavailable; then no model is on the device, as the former one was dropped to make room.
        """
        if self._loaded is not None and self._loaded.key == config.model_key:
            return self._loaded, 0.0
        self._drop()
        loaded = load(config, self._models_directory, self._device.name)
        try:
            self._device.hold(loaded.weights_bytes)
        except torch.OutOfMemoryError as error:
            raise ModelUnavailable(
                f"the model of {config.label} does not fit the device ({error}); serve it in a pool with more memory"
            ) from None
        self._loaded = loaded
        return loaded, loaded.seconds

    def tidy(self) -> None:
        """Give back what a failed batch left behind."""
        gc.collect()
        self._device.empty_cache()

    def _drop(self) -> None:
        self._loaded = None
        self._device.hold(0)
        self.tidy()
