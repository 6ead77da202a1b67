"""Weights from names: each tensor is filled from a stream seeded by SHA-256 of its own name.

torch.randn takes other vectorised paths on other processors. Here a value is an integer of PCG64, whose raw stream
numpy never changes, times one constant: each step is exact or rounded once by IEEE rules, so any machine gets the
same bytes.
"""

import hashlib
import math
from collections.abc import Mapping

import numpy as np
import torch

_BITS = 24  # what a float32 holds exactly


def uniform(name: str, count: int) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """`count` numbers in [-1, 1), the same for the same name on every machine."""
    seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:16], "big")
    raw = np.asarray(np.random.PCG64(seed).random_raw(count), dtype=np.uint64)
    return (raw >> np.uint64(64 - _BITS)).astype(np.float64) * 2.0 ** (1 - _BITS) - 1.0


def _sinusoid(shape: torch.Size) -> torch.Tensor:
    """A code for each position, (1, positions, channels); rounded, since libm differs in its last bit."""
    _, positions, channels = shape
    rows = [
        [
            round((math.cos if channel % 2 else math.sin)(place / 10_000 ** (channel // 2 * 2 / channels)), 6)
            for channel in range(channels)
        ]
        for place in range(positions)
    ]
    return torch.tensor([rows], dtype=torch.float32)


def _value(seed: str, name: str, tensor: torch.Tensor, gain: float) -> torch.Tensor:
    last = name.rsplit(".", 1)[-1]
    if last in ("pe", "pos_embed"):  # of a motion module, and of a transformer's patches
        return _sinusoid(tensor.shape)
    if last == "bias":
        return torch.zeros_like(tensor)
    if tensor.ndim < 2:  # the scale of a norm
        return torch.ones_like(tensor)
    # Variance 1 / fan-in keeps a signal's size through a layer; an embedding is looked up, so its fan-in is 1.
    fan_in = 1 if "embedding" in name else math.prod(tensor.shape[1:])
    values = uniform(f"{seed}/{name}", tensor.numel()) * (gain * math.sqrt(3 / fan_in))
    return torch.from_numpy(values.astype(np.float32)).reshape(tensor.shape)


def fill(module: torch.nn.Module, seed: str, gains: Mapping[str, float] | None = None) -> None:
    """Overwrite every tensor of `module` in place: norms 1, biases 0, the others uniform with unit gain.

    `gains` multiplies the weights whose name contains a key. Integer buffers stay: they are counts, not weights.
    """
    with torch.no_grad():
        for name, tensor in sorted(module.state_dict().items()):
            if not tensor.is_floating_point():
                continue
            gain = math.prod(factor for part, factor in (gains or {}).items() if part in name)
            tensor.copy_(_value(seed, name, tensor, gain))
