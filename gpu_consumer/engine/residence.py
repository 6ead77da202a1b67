"""Which models are on the device: as many as are allowed and fit, the least recently used leaves first."""

import gc
import logging
import time
import weakref
from collections import OrderedDict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

import torch

from gpu_consumer.engine.device import Device
from gpu_consumer.engine.faults import trouble
from gpu_consumer.engine.host_copy import HostCopy
from gpu_consumer.engine.settings import EngineSettings
from gpu_consumer.engine.sharing import Shelf
from gpu_consumer.models.digests import ModelUnavailable, verify
from gpu_consumer.models.loading import Loaded, load
from gpu_consumer.models.options.parts import modules
from gpu_consumer.models.size import weights_bytes
from schemas.config import GenerationConfig

log = logging.getLogger(__name__)

# Small tensors share blocks of 2 MiB in CUDA's allocator, so a model takes a little more than its weights.
_ALLOCATOR = 1.02
_CACHE_SHARE = 0.5  # of the device, where nothing is set: batches need the rest


class WeightsLeft(Exception):
    """A model was dropped and its weights are still in memory: the process is to end, for nothing else frees them."""


class Residence:
    """For one thread. Whoever took a model lets go of it before the next `take` or `make_room`, which may drop it.

    `cache_bytes`: weights on the device at most, but for the model in use. `host_cache_bytes`: weights in host memory.
    `shelf`: where models are shared by a team of `workers` processes. Those that are shared never leave.
    """

    def __init__(
        self,
        device: Device,
        models_directory: Path,
        cache_bytes: int = 0,
        host_cache_bytes: int = 0,
        *,
        shelf: Shelf | None = None,
        workers: int = 1,
    ) -> None:
        self._device = device
        self._models_directory = models_directory
        self._cache_bytes = cache_bytes
        self._host_cache_bytes = host_cache_bytes
        self._shelf = shelf
        self._workers = workers
        self._borrowed: set[str] = set()
        self._loaded: OrderedDict[str, Loaded] = OrderedDict()  # the one used last at the end
        self._away: dict[str, Loaded] = {}  # with their weights in host memory alone
        self._copies: OrderedDict[str, HostCopy] = OrderedDict()  # of loaded ones too: leaving again is free

    @classmethod
    def of(cls, device: Device, settings: EngineSettings, shelf: Shelf | None = None) -> Self:
        cache_bytes = settings.model_cache_bytes
        if cache_bytes is None:
            cache_bytes = int(_CACHE_SHARE * device.info().memory_bytes)
        return cls(
            device, settings.models_directory, cache_bytes, settings.host_cache_bytes,
            shelf=shelf, workers=settings.workers,
        )  # fmt: skip

    @property
    def key(self) -> str | None:
        """The model key that was used last."""
        return next(reversed(self._loaded), None)

    def keys(self) -> tuple[str, ...]:
        """The model keys on the device, the one used last at the end."""
        return tuple(self._loaded)

    @property
    def weights_bytes(self) -> int:
        """Of all models on the device."""
        return sum(loaded.weights_bytes for loaded in self._loaded.values())

    @property
    def own_bytes(self) -> int:
        """Of those that this process has brought there: over a team it adds up to what is there."""
        return self.weights_bytes - self._borrowed_of(self._loaded.values())

    def take(self, config: GenerationConfig) -> tuple[Loaded, float]:
        """The model of `config`, and the seconds its loading took, 0 if it was there. Blocks while it loads.

        Raises ModelUnavailable, before anything is dropped for a model that is damaged or could never fit; and
        WeightsLeft.
        """
        key = config.model_key
        if key in self._loaded:
            self._loaded.move_to_end(key)
            return self._loaded[key], 0.0
        started = time.monotonic()
        self._loaded[key] = self._back(config) if key in self._away else self._read(config)
        return self._loaded[key], time.monotonic() - started

    def make_room(self, bytes_: int) -> bool:
        """Drop models that are not in use until a batch can have so many bytes; whether it can now.

        What a batch needs to run in its full bucket: its predicted peak, divided by the share of memory granted. For
        the start of a batch, or of a session: what the allocator cached of the former is given back, for the small
        pieces that come first would split its large blocks, and keep them from the large pieces (make bench-memory).
        """
        self._device.empty_cache()
        idle = [key for key in self._droppable() if key != self.key]
        while self._device.free_bytes() < bytes_ and idle:
            self._drop(idle.pop(0))
        return self._device.free_bytes() >= bytes_

    def clear(self) -> None:
        """Drop every model, from the host's memory too. Not in a team, where others may have borrowed them."""
        while self._copies:
            self._forget(next(iter(self._copies)))
        while self._loaded:
            self._drop(next(iter(self._loaded)), keep=False)

    def tidy(self) -> None:
        """Give back what a failed batch left behind."""
        gc.collect()
        self._device.empty_cache()

    def _read(self, config: GenerationConfig) -> Loaded:
        folder = self._models_directory / config.model.name
        verify(folder, config.model.digest)
        bytes_ = int(weights_bytes(folder, config.dtype, config.offload) * _ALLOCATOR)
        shelf = self._shelf
        if shelf is not None and config.offload == "none" and (shelf.lends or shelf.has(config.model_key)):
            loaded = self._share(shelf, config, bytes_)
        else:
            self._evict_for(config, bytes_)
            loaded = load(config, self._models_directory, self._device.name)
        try:
            self._hold(loaded)
        except torch.OutOfMemoryError as error:
            raise _does_not_fit(config, str(error)) from None
        return loaded

    def _share(self, shelf: Shelf, config: GenerationConfig, bytes_: int) -> Loaded:
        key, device = config.model_key, self._device.name
        borrowed = shelf.has(key)
        # A team bears it together: of what is free to each of n processes it takes an n-th.
        self._evict_for(config, 0 if borrowed else -(-bytes_ // self._workers))
        loaded = load(config, self._models_directory, device, share=lambda pipe: shelf.settle(key, pipe, device))
        if borrowed:
            self._borrowed.add(key)
        return loaded

    def _back(self, config: GenerationConfig) -> Loaded:
        loaded, copy = self._away[config.model_key], self._copies[config.model_key]
        self._evict_for(config, copy.bytes)
        try:
            self._hold(loaded)
            copy.enter(self._device.name)
        except torch.OutOfMemoryError as error:
            self._hold()
            raise _does_not_fit(config, str(error)) from None
        self._copies.move_to_end(config.model_key)
        return self._away.pop(config.model_key)

    def _evict_for(self, config: GenerationConfig, bytes_: int) -> None:
        """Raises ModelUnavailable where dropping everything would not make it fit."""
        idle = self._droppable()
        most = self._device.free_bytes() + sum(self._loaded[key].weights_bytes for key in idle)
        if bytes_ > most:
            raise _does_not_fit(config, f"it takes {bytes_:,} bytes, and {most:,} could be freed")
        while idle and (self.weights_bytes + bytes_ > self._cache_bytes or self._device.free_bytes() < bytes_):
            self._drop(idle.pop(0))

    def _droppable(self) -> list[str]:
        """The least recently used first."""
        return [key for key, loaded in self._loaded.items() if not loaded.shared]

    def _drop(self, key: str, *, keep: bool = True) -> None:
        loaded = self._loaded[key]
        storages = _storages(loaded.pipe)
        if keep and self._copy(key, loaded):
            self._copies[key].leave()
            self._away[key] = loaded
        del loaded, self._loaded[key]
        self.tidy()
        self._hold()
        if any(storage() is not None for storage in storages):
            raise WeightsLeft(f"the model {key} was dropped, but something still holds its weights")

    def _hold(self, coming: Loaded | None = None) -> None:
        """Book what is on the device, and what comes. Raises torch.OutOfMemoryError."""
        models = [*self._loaded.values(), *([coming] if coming is not None else [])]
        self._device.hold(
            sum(one.weights_bytes for one in models),
            shared_bytes=sum(one.weights_bytes for one in models if one.shared),
            borrowed_bytes=self._borrowed_of(models),
        )

    def _borrowed_of(self, models: Iterable[Loaded]) -> int:
        return sum(one.weights_bytes for one in models if one.key in self._borrowed)

    def _copy(self, key: str, loaded: Loaded) -> bool:
        """Whether a copy on the host is there now. Older ones leave for it."""
        if key in self._copies:
            return True
        # Offloaded weights are in host memory already, and hooks know where.
        if loaded.offloaded or loaded.weights_bytes > self._host_cache_bytes:
            return False
        while self._copies and self._host_bytes + loaded.weights_bytes > self._host_cache_bytes:
            self._forget(next(iter(self._copies)))
        try:
            self._copies[key] = HostCopy(loaded.pipe, pinned=self._device.name == "cuda")
        except (MemoryError, RuntimeError) as error:
            log.warning("%s is not kept in host memory: %s", key, trouble(error).message)
        return key in self._copies

    def _forget(self, key: str) -> None:
        del self._copies[key]
        self._away.pop(key, None)

    @property
    def _host_bytes(self) -> int:
        return sum(copy.bytes for copy in self._copies.values())


def _storages(pipe: Any) -> list["weakref.ref[torch.UntypedStorage]"]:
    """A storage's object lives as long as its memory, whoever holds it."""
    return [weakref.ref(tensor.untyped_storage()) for part in modules(pipe) for tensor in part.parameters()]


def _does_not_fit(config: GenerationConfig, why: str) -> ModelUnavailable:
    return ModelUnavailable(
        f"the model of {config.label} does not fit the device ({why}); serve it in a pool with more memory"
    )
