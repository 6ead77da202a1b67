"""An engine is ready when it has made a picture, not when its weights are read."""

import time
from collections.abc import Sequence

import diffusers
import torch
import transformers

from gpu_consumer.engine.device import open_device
from gpu_consumer.engine.pipeline import PipelineEngine
from gpu_consumer.engine.protocol import Batch, Item, Ready
from gpu_consumer.engine.residence import Residence
from gpu_consumer.engine.settings import EngineSettings
from schemas.config import GenerationConfig


class WarmUpFailed(Exception):
    """The pipeline does not run here: a wrong build of a kernel, or too little memory for even one batch."""


def open_engine(settings: EngineSettings, preload: Sequence[GenerationConfig]) -> tuple[PipelineEngine, Ready]:
    """The engine of this process, each configuration of `preload` run for one real step. Blocks for all of it.

    Raises ModelUnavailable, WarmUpFailed, faults.Sticky, and RuntimeError where the device is missing.
    """
    device = open_device(settings)
    engine = PipelineEngine(device, Residence(device, settings.models_directory))
    timings = {"load": 0.0, "warm": 0.0}
    for config in _last_wanted_first(preload):
        started = time.monotonic()
        load = _warm(engine, config)
        timings["load"] += load
        timings["warm"] += time.monotonic() - started - load
    return engine, Ready(device.info(), _libraries(), timings)


def _last_wanted_first(preload: Sequence[GenerationConfig]) -> list[GenerationConfig]:
    """By model, each loaded once, and the first of the list last: its model stays on the device."""
    models = list(dict.fromkeys(config.model_key for config in preload))
    return sorted(preload, key=lambda config: -models.index(config.model_key))


def _warm(engine: PipelineEngine, config: GenerationConfig) -> float:
    """Run one step; return the seconds that loading took. One step draws no picture, so its looks do not matter."""
    one_step = config.model_copy(update={"steps": 1})
    finished = engine.run(Batch(0, one_step, (Item("warm-up", "warm-up", "", 0),)))
    for flaw in finished.flaws:
        if flaw.code in ("generation_error", "out_of_memory"):
            raise WarmUpFailed(f"the first step of {config.label} fails here: {flaw.message}")
    return finished.timings.get("load", 0.0)


def _libraries() -> dict[str, str]:
    """What the bytes of a picture depend on beside its device."""
    versions = {
        "torch": str(torch.__version__),  # a class of torch's own: unpickling it would import torch in the consumer
        "diffusers": diffusers.__version__,
        "transformers": transformers.__version__,
    }
    if torch.cuda.is_available():
        versions["cuda"] = str(torch.version.cuda)
        versions["cudnn"] = str(torch.backends.cudnn.version())  # type: ignore[no-untyped-call]
    return versions
