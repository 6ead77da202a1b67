"""The `pipeline` engine: runs any diffusers pipeline to its end, one padded batch at a time, under one thread."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from gpu_consumer.engine import stages
from gpu_consumer.engine.account import Account
from gpu_consumer.engine.device import Device
from gpu_consumer.engine.faults import Trouble, trouble
from gpu_consumer.engine.protocol import Item
from gpu_consumer.engine.residence import Residence
from gpu_consumer.engine.stepwise.decoder import rescued
from gpu_consumer.memory import half
from gpu_consumer.models.loading import Loaded
from schemas.config import GenerationConfig


@dataclass(frozen=True, slots=True)
class Pixels:
    """A picture or video, uint8 array ([frames,] height, width, 3), and the padded size of the batch it was made in."""

    pixels: Any
    bucket: int


Results: TypeAlias = dict[str, Pixels | Trouble]


class Deserted(BaseException):
    """All of the batch have left: it ends here. No Exception, for it is no fault, and nobody may take it for one."""


class _Misstep(BaseException):
    """`on_step` failed, and not the batch. No Exception, so that nobody takes it for a fault of an item."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass(slots=True)
class Run:
    """One batch on its way. `begins` is called with the keys of each try, and `on_step` after each of its steps; `gone`
    names who has left meanwhile, and `ran_out` is called when memory ran out, and all that was taken was given back."""

    config: GenerationConfig
    loaded: Loaded
    account: Account
    begins: Callable[[Sequence[str]], None]
    on_step: Callable[[], None]
    gone: Callable[[str], bool]
    ran_out: Callable[[], None]

    def staying(self, items: Sequence[Item]) -> list[Item]:
        return [item for item in items if not self.gone(item.key)]


class PipelineEngine:
    """Not for two threads: a second call while one runs raises RuntimeError, and so cannot corrupt the first."""

    def __init__(self, device: Device, residence: Residence) -> None:
        self._device = device
        self._residence = residence
        self._busy = threading.Lock()

    def run(
        self,
        config: GenerationConfig,
        items: Sequence[Item],
        account: Account | None = None,
        *,
        begins: Callable[[Sequence[str]], None] = lambda _: None,
        on_step: Callable[[], None] = lambda: None,
        gone: Callable[[str], bool] = lambda _: False,
        ran_out: Callable[[], None] = lambda: None,
    ) -> Results:
        """By key: the pixels of each of `items`, at most account.bucket of them, or what is wrong. Blocks for all.

        What it costs goes to `account`, whose bucket is lowered where memory runs out. Who is `gone` after a step is
        left out; if nobody stays, the run ends there. `begins` is called with the keys of each try before it, and
        `ran_out` each time that memory ran out, before the next try.

        Raises ModelUnavailable, where nothing ran, what `on_step` raises, and faults.Sticky, after which this process
        makes no more pictures.
        """
        if not self._busy.acquire(blocking=False):
            raise RuntimeError("the engine is running a batch; it runs one at a time")
        try:
            loaded, load_seconds = self._residence.take(config)
            account = account or Account(self._device, config.bucket)
            if load_seconds:
                account.add("load", load_seconds)
            assert 1 <= len(items) <= account.bucket, f"{len(items)} items in a bucket of {account.bucket}"
            return self._make(Run(config, loaded, account, begins, on_step, gone, ran_out), items, account.bucket)
        except _Misstep as misstep:
            raise misstep.error from None
        finally:
            self._busy.release()

    def _make(self, run: Run, items: Sequence[Item], bucket: int) -> Results:
        """Out of memory halves the bucket; any other trouble halves the items, until the bad one is alone in it."""
        items = run.staying(items)
        if not items:
            return {}
        run.begins([item.key for item in items])
        run.account.bucket = min(run.account.bucket, bucket)
        result = self._attempt(run, items, bucket)
        if not isinstance(result, Trouble):
            return result
        self._residence.tidy()
        if result.out_of_memory:
            run.ran_out()
        if result.out_of_memory and bucket > 1:
            bucket = size = half(bucket)
        elif not result.out_of_memory and len(items) > 1:
            size = (len(items) + 1) // 2
        else:
            return {item.key: result for item in items}
        parts = [items[start : start + size] for start in range(0, len(items), size)]
        return {key: one for part in parts for key, one in self._make(run, part, bucket).items()}

    def _attempt(self, run: Run, items: Sequence[Item], bucket: int) -> Results | Trouble:
        try:
            with run.account.memory(bucket * run.config.price.vram_bytes) as usage:
                results = self._generate(run, items, bucket)
        except Deserted:
            return {}
        except Exception as error:
            # Only words leave this block: the error's frames hold the batch's tensors, and a retry needs their memory.
            return trouble(error)
        run.account.fitted[bucket] = max(run.account.fitted.get(bucket, 0), usage.peak_bytes)
        return results

    def _generate(self, run: Run, items: Sequence[Item], bucket: int) -> Results:
        def stepped() -> None:
            try:
                run.on_step()
            except Exception as error:
                raise _Misstep(error) from error
            if not run.staying(items):
                raise Deserted

        padded = stages.padded(items, bucket)
        try:
            latents = stages.denoise(run.loaded, run.config, padded, run.account, stepped)
        except Deserted:
            run.loaded.pipe.maybe_free_model_hooks()  # what its call does at its end
            raise
        keys = [item.key for item in items]
        images = stages.decode(run.loaded, latents, keys, run.account)[: len(items)]
        with torch.no_grad():
            results = rescued(run.loaded, latents, images, keys, run.account)
        return {key: one if isinstance(one, Trouble) else Pixels(one, bucket) for key, one in results.items()}
