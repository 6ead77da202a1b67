"""bench-gpu: step times, utilisation, step batching, swaps, memory and bytes, on the card where there is one.

    python -m tests.benchmarks.gpu

On a CUDA device: the shapes of Stable Diffusion 1.5 and SDXL with random weights in float16, some minutes. Without one
the same code runs on the CPU with the tiny models; that shows that it runs, and says nothing about a card: there only
the bytes have a bar. Exit status 1 where a bar is missed.
"""

import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Literal

import torch
from rich.console import Console

from gpu_consumer.engine.device import Device, open_device
from gpu_consumer.engine.settings import EngineSettings
from gpu_consumer.engine.stepwise.request import Shape
from gpu_consumer.models.loading import Loaded
from gpu_consumer.models.tiny import make_tiny
from tests.benchmarks.gpu.joins import same_bytes, throughput
from tests.benchmarks.gpu.memory import peaks, predicted
from tests.benchmarks.gpu.models import Bench, real_models, tiny_models
from tests.benchmarks.gpu.peak import data_sheet_flops, matrix_flops
from tests.benchmarks.gpu.steps import step_times
from tests.benchmarks.gpu.swap import swap
from tests.benchmarks.report import Measure, report

_JOINING = 0.95
_SWAP = 0.85
_MEMORY = 0.05
_MIB = 1 << 20

console = Console(highlight=False, soft_wrap=True)


def main() -> int:
    """Measure, report, and say by the exit status whether every bar was met."""
    warnings.filterwarnings("ignore", category=FutureWarning)
    if torch.cuda.is_available():
        measures = measure(open_device(EngineSettings(device="cuda")), real_models("cuda"))
    else:
        console.print("no CUDA device: the tiny models on the CPU, which say nothing about a card")
        console.print("joining, swap and memory have a goal here and no bar; the same bytes have a bar everywhere")
        with tempfile.TemporaryDirectory(prefix="promptkiln-bench-") as folder:
            make_tiny(Path(folder))
            measures = measure(open_device(EngineSettings(device="cpu")), tiny_models(Path(folder)))
    return 0 if report("gpu", measures, console) else 1


def measure(device: Device, benches: tuple[Bench, ...]) -> dict[str, Measure]:
    """One model after the other on the device; blocks for minutes."""
    info = device.info()
    console.print(f"{info.product}, {info.memory_bytes / 2**30:.1f} GiB, torch {torch.__version__}")
    measures: dict[str, Measure] = {}
    for bench in benches:
        started = time.monotonic()
        loaded = bench.load()
        console.print(f"{bench.family}: {loaded.weights_bytes / _MIB:,.0f} MiB of weights, {loaded.pipe.dtype}")
        for part in (_steps, _joins, _swap, _memory):
            measures |= part(bench, loaded, device)
        console.print(f"{bench.family}: {time.monotonic() - started:.0f} s in all")
        del loaded
        device.empty_cache()
    return measures


def _steps(bench: Bench, loaded: Loaded, device: Device) -> dict[str, Measure]:
    product = matrix_flops(loaded.pipe.dtype, loaded.pipe.device, device.synchronise)
    sheet = data_sheet_flops(device.info().product, loaded.pipe.dtype)
    best = 0.0
    for each in step_times(loaded, bench.sizes, bench.buckets, device.synchronise):
        best = max(best, each.flops_per_second)
        by_sheet = f", {100 * each.flops_per_second / sheet:.0f} % of the data sheet's" if sheet else ""
        console.print(
            f"{bench.family} {each.size} px, {each.bucket} at once: {1000 * each.seconds:.1f} ms a step, "
            f"{each.bucket / each.seconds:.1f} picture steps/s, {each.flops_per_second / 1e12:.3g} TFLOPS: "
            f"{100 * each.flops_per_second / product:.0f} % of a matrix product's{by_sheet}"
        )
    measures = {f"{bench.family} MFU": Measure(best / product, "ratio", "higher", peer="a large matrix product")}
    if sheet:
        measures[f"{bench.family} MFU, data sheet"] = Measure(best / sheet, "ratio", "higher", peer="dense, 16 bit")
    return measures


def _joins(bench: Bench, loaded: Loaded, device: Device) -> dict[str, Measure]:
    shape = Shape(bench.size, bench.size, bench.bucket)
    whole, single = throughput(loaded, device, shape, bench.steps, decode_buckets=(shape.bucket, 1)).values()
    same = same_bytes(loaded, device, shape, bench.steps)
    return {
        f"{bench.family} joining": _held(device, whole, "higher", _JOINING, "static full batches"),
        f"{bench.family} joining, decode 1": Measure(single, "ratio", "higher", peer="static full batches"),
        f"{bench.family} same bytes": Measure(float(same), "of 1", "higher", bar=1, peer="alone and in company"),
    }


def _swap(bench: Bench, loaded: Loaded, device: Device) -> dict[str, Measure]:
    found = swap(loaded, device)
    console.print(
        f"{bench.family} back from the host: {found.bytes / found.model_seconds / 1e9:.1f} GB/s, "
        f"{found.bytes / found.plain_seconds / 1e9:.1f} GB/s in one buffer"
    )
    return {f"{bench.family} swap": _held(device, found.ratio, "higher", _SWAP, "a plain copy")}


def _memory(bench: Bench, loaded: Loaded, device: Device) -> dict[str, Measure]:
    measured = peaks(loaded, device, bench.size, bench.buckets)
    told = predicted(measured)
    for bucket, bytes_ in measured.items():
        console.print(
            f"{bench.family} {bench.size} px, {bucket} at once: {bytes_ / _MIB:,.1f} MiB beside the weights, "
            f"{told[bucket] / _MIB:,.1f} predicted from the other buckets"
        )
    apart = max(abs(told[bucket] / bytes_ - 1) for bucket, bytes_ in measured.items())
    return {f"{bench.family} memory, apart": _held(device, apart, "lower", _MEMORY, "measured peaks")}


def _held(device: Device, value: float, better: Literal["higher", "lower"], mark: float, peer: str) -> Measure:
    """The mark is a bar on a card, and a goal elsewhere."""
    bar = mark if device.name == "cuda" else None
    return Measure(value, "ratio", better, goal=mark, bar=bar, peer=peer)


if __name__ == "__main__":
    sys.exit(main())
