"""Kernels of a model's own, by torch.compile. They are made at the first call of each shape, so warm-up makes them."""

from importlib import import_module
from typing import Any

from gpu_consumer.models.options.parts import denoiser
from schemas.config import GenerationConfig

# Of one network, over all models and shapes of a process. torch's own 8 are used up by a few buckets, and what comes
# after them would run uncompiled, with other bits, in silence.
_SHAPES_MAX = 256


def compile_parts(pipe: Any, config: GenerationConfig) -> None:
    """In place: nothing that calls the parts notices. One shape, one set of kernels, since a bucket has one size."""
    wish = config.compile
    if wish is None:
        return
    _make_it_repeatable()
    if wish.backend == "tensorrt":
        import_module("torch_tensorrt")  # makes its name known to torch.compile
    mode = None if wish.mode == "default" else wish.mode
    parts = {"denoiser": denoiser(pipe), "decoder": pipe.vae.decoder}
    for part in wish.parts:
        parts[part].compile(backend=wish.backend, mode=mode, fullgraph=wish.fullgraph, dynamic=False)


def _make_it_repeatable() -> None:
    import torch._dynamo.config
    import torch._inductor.config

    # Kernels are not chosen by what ran fastest here and today: two consumers are to draw the same bytes.
    torch._inductor.config.deterministic = True
    torch._dynamo.config.recompile_limit = _SHAPES_MAX
    torch._dynamo.config.accumulated_recompile_limit = _SHAPES_MAX
    torch._dynamo.config.fail_on_recompile_limit_hit = True
