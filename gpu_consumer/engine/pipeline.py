"""The `pipeline` engine: runs any diffusers pipeline to its end, one padded batch at a time, under one thread."""

import threading
from collections.abc import Sequence
from typing import Any

import torch

from gpu_consumer.engine import stages
from gpu_consumer.engine.account import Account
from gpu_consumer.engine.device import Device
from gpu_consumer.engine.encode import CONTENT_TYPES, encode
from gpu_consumer.engine.faults import Trouble, trouble
from gpu_consumer.engine.pixels import defect, to_uint8
from gpu_consumer.engine.protocol import Batch, Finished, Flaw, FlawCode, Item, Picture
from gpu_consumer.engine.residence import Residence
from gpu_consumer.models.loading import Loaded
from schemas.config import GenerationConfig

_SENTENCES: dict[FlawCode, str] = {
    "non_finite": "the model gave numbers that are no colours (NaN or infinity), also when decoded in float32",
    "blank_output": "the model gave a picture of a single colour, also when decoded in float32",
}


class PipelineEngine:
    """Not for two threads: a second call while one runs raises RuntimeError, and so cannot corrupt the first."""

    def __init__(self, device: Device, residence: Residence) -> None:
        self._device = device
        self._residence = residence
        self._busy = threading.Lock()

    def run(self, batch: Batch) -> Finished:
        """Make every picture of `batch`; blocks until all are encoded.

        Raises ModelUnavailable, where nothing ran, and faults.Sticky, after which this process makes no more pictures.
        """
        if not self._busy.acquire(blocking=False):
            raise RuntimeError("the engine is running a batch; it runs one at a time")
        try:
            return self._run(batch)
        finally:
            self._busy.release()

    def _run(self, batch: Batch) -> Finished:
        config = batch.config
        assert 1 <= len(batch.items) <= config.bucket, f"{len(batch.items)} items in a bucket of {config.bucket}"
        loaded, load_seconds = self._residence.take(config)
        account = Account(self._device, config.bucket)
        if load_seconds:
            account.add("load", load_seconds)
        outcomes = self._make(loaded, config, batch.items, config.bucket, account)
        return Finished(
            number=batch.number,
            pictures=tuple(one for one in outcomes if isinstance(one, Picture)),
            flaws=tuple(one for one in outcomes if isinstance(one, Flaw)),
            timings=account.timings,
            gpu_seconds=account.gpu_seconds,
            peak_vram_bytes=account.peak_bytes,
            bucket=account.bucket,
        )

    def _make(
        self, loaded: Loaded, config: GenerationConfig, items: Sequence[Item], bucket: int, account: Account
    ) -> list[Picture | Flaw]:
        """Out of memory halves the bucket; any other trouble halves the items, until the bad one is alone in it."""
        account.bucket = min(account.bucket, bucket)
        result = self._attempt(loaded, config, items, bucket, account)
        if not isinstance(result, Trouble):
            return result
        self._residence.tidy()
        if result.out_of_memory and bucket > 1:
            bucket = size = (bucket + 1) // 2
        elif not result.out_of_memory and len(items) > 1:
            size = (len(items) + 1) // 2
        else:
            return [Flaw(item.key, result.code, result.message) for item in items]
        parts = [items[start : start + size] for start in range(0, len(items), size)]
        return [one for part in parts for one in self._make(loaded, config, part, bucket, account)]

    def _attempt(
        self, loaded: Loaded, config: GenerationConfig, items: Sequence[Item], bucket: int, account: Account
    ) -> list[Picture | Flaw] | Trouble:
        try:
            with account.memory(bucket * config.price.vram_bytes):
                return self._generate(loaded, config, items, bucket, account)
        except Exception as error:
            # Only words leave this block: the error's frames hold the batch's tensors, and a retry needs their memory.
            return trouble(error)

    def _generate(
        self, loaded: Loaded, config: GenerationConfig, items: Sequence[Item], bucket: int, account: Account
    ) -> list[Picture | Flaw]:
        latents = stages.denoise(loaded, config, stages.padded(items, bucket), account)
        images = stages.decode(loaded, latents, account)[: len(items)]
        defects = [defect(image) for image in images]
        for n, found in enumerate(defects):
            if found and loaded.pipe.vae.dtype != torch.float32 and bool(torch.isfinite(latents[n]).all()):
                again = stages.decode_again(loaded, latents, n, account)
                images = images.float()
                images[n], defects[n] = again, defect(again)
        with account.stage("encode"):
            pixels = to_uint8(images)
            return [
                Flaw(item.key, found, f"{_SENTENCES[found]}; try another seed")
                if (found := defects[n])
                else _picture(loaded, config, item, pixels[n], bucket)
                for n, item in enumerate(items)
            ]


def _picture(loaded: Loaded, config: GenerationConfig, item: Item, pixels: Any, bucket: int) -> Picture:
    content_type, extension = CONTENT_TYPES[config.image_format]
    return Picture(
        key=item.key,
        data=encode(pixels, config.image_format, config.quality, config.frames_per_second),
        content_type=content_type,
        extension=extension,
        width=pixels.shape[-2],
        height=pixels.shape[-3],
        bucket=bucket,
        frames=config.frames,
        duration_seconds=config.duration_seconds,
        warnings=stages.warnings(loaded, item),
    )
