"""bench-gpu: step times, utilisation, step batching, memory, swaps and bytes, on the card where there is one.

    python -m tests.benchmarks.gpu

On a CUDA device: the shapes of Stable Diffusion 1.5 and SDXL with random weights in float16, some minutes. Without one
the same code runs on the CPU with the tiny models; that shows that it runs, and says nothing about a card.
Exit status 1 where a bar is missed.
"""

import sys
import tempfile
import warnings
from pathlib import Path

import torch
from rich.console import Console

from gpu_consumer.engine.device import CpuDevice, CudaDevice, Device
from gpu_consumer.engine.stepwise.request import Shape
from gpu_consumer.models.loading import Loaded
from gpu_consumer.models.tiny import make_tiny
from tests.benchmarks.gpu.joins import same_bytes, throughput
from tests.benchmarks.gpu.models import Bench, on_cpu, on_cuda
from tests.benchmarks.gpu.steps import step_times
from tests.benchmarks.report import Measure, report

_CPU_BYTES = 4 << 30

console = Console(highlight=False, soft_wrap=True)


def main() -> int:
    """Measure, report, and say by the exit status whether every bar was met."""
    warnings.filterwarnings("ignore", category=FutureWarning)
    if torch.cuda.is_available():
        return _run(CudaDevice(), on_cuda())
    torch.set_num_threads(1)
    console.print("no CUDA device: the tiny models on the CPU, which says nothing about a card")
    with tempfile.TemporaryDirectory(prefix="promptkiln-bench-") as folder:
        make_tiny(Path(folder))
        return _run(CpuDevice(_CPU_BYTES), on_cpu(Path(folder)))


def _run(device: Device, benches: tuple[Bench, ...]) -> int:
    info = device.info()
    console.print(f"{info.product}, {info.memory_bytes / 2**30:.1f} GiB, torch {torch.__version__}")
    measures: dict[str, Measure] = {}
    for bench in benches:
        loaded = bench.load()
        console.print(f"{bench.family}: {loaded.weights_bytes / 2**20:,.0f} MiB of weights")
        measures |= _steps(bench, loaded, device) | _joins(bench, loaded, device)
        del loaded
        device.empty_cache()
    return 0 if report("gpu", measures, console) else 1


def _steps(bench: Bench, loaded: Loaded, device: Device) -> dict[str, Measure]:
    best = 0.0
    for each in step_times(loaded, bench.sizes, bench.buckets, device.synchronise):
        console.print(
            f"{bench.family} {each.size} px, {each.bucket} at once: {1000 * each.seconds:.1f} ms a step, "
            f"{each.bucket / each.seconds:.1f} picture steps/s, {100 * each.utilisation:.0f} % of a matrix product's"
        )
        best = max(best, each.utilisation)
    return {f"{bench.family} utilisation": Measure(best, "ratio", "higher", peer="a large matrix product")}


def _joins(bench: Bench, loaded: Loaded, device: Device) -> dict[str, Measure]:
    shape = Shape(bench.size, bench.size, bench.bucket)
    ratio = throughput(loaded, device, shape, bench.steps)
    bar = 0.95 if device.name == "cuda" else None  # the tiny models' steps are as noisy as the machine
    same = same_bytes(loaded, device, shape, bench.steps)
    return {
        f"{bench.family} joining": Measure(ratio, "ratio", "higher", goal=0.95, bar=bar, peer="static full batches"),
        f"{bench.family} same bytes": Measure(float(same), "of 1", "higher", bar=1, peer="alone and in company"),
    }


if __name__ == "__main__":
    sys.exit(main())
