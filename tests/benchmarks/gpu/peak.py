"""What a device's arithmetic does at best: by its data sheet, where the product is known, and as measured."""

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch

_ROUNDS = 5
_TFLOPS: Mapping[str, float] = {
    "NVIDIA H200": 989,
    "NVIDIA H100 80GB HBM3": 989,
    "NVIDIA A100-SXM4-40GB": 312,
    "NVIDIA A100-SXM4-80GB": 312,
    "NVIDIA A100-PCIE-40GB": 312,
    "NVIDIA A100 80GB PCIe": 312,
    "NVIDIA L40S": 362,
}


def data_sheet_flops(product: str, dtype: torch.dtype) -> float | None:
    """Dense operations a second in float16 or bfloat16; None: another type, or a product that is not listed.

    From NVIDIA's data sheets of the H200, H100 (SXM), A100 and L40S, "BFLOAT16 / FP16 Tensor Core". Those of the H200,
    the H100 and the L40S print the figure with sparsity, which is twice as high. Slices (MIG) are not listed.
    """
    tflops = _TFLOPS.get(product)
    return None if tflops is None or dtype not in {torch.float16, torch.bfloat16} else tflops * 1e12


def matrix_flops(dtype: torch.dtype, device: torch.device, synchronise: Callable[[], None]) -> float:
    """Operations a second of one large square product of this type, measured."""
    side = 8192 if device.type == "cuda" else 1024
    left, right = (torch.randn(side, side, dtype=dtype, device=device) for _ in range(2))
    return 2 * side**3 / median_seconds(lambda: left @ right, synchronise)


def median_seconds(work: Callable[[], Any], synchronise: Callable[[], None]) -> float:
    """Of some rounds, after one that warms up."""
    work()
    seconds = []
    for _ in range(_ROUNDS):
        synchronise()
        started = time.perf_counter()
        work()
        synchronise()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)
