"""bench-pipeline: events a second and latency of the whole pipeline, beside a raw aiokafka copy loop.

    python -m tests.benchmarks.pipeline

Everything runs on one broker in one run: the copy loop (its own process, the peer), then admission and one GPU consumer
as the processes that they are in production, with an engine that takes no time and a store in memory where the system
has one (/dev/shm): a disk that must be waited for at every outcome would be all that is measured. Once with the plain
intake and once with Faust's. No batch waits to be fuller, so the latency is the pipeline's own. Exit status 1 where a
bar is missed.
"""

import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from tests.benchmarks.load import Publisher, Watcher
from tests.benchmarks.rates import Latency, burst, drip
from tests.benchmarks.report import FOLDER, Measure, report
from tests.benchmarks.services import copy_loop, deployment, running, start, work_of
from tests.fault.plan import Kind
from tests.fault.waiting import Deadline
from tests.fault.world import POOL, broker

_COPY_BURST = 20_000
_BURST, _BURSTS = 2_000, 3
_WARM_UP = 200
_DRIP_PER_SECOND, _DRIP_SECONDS = 10.0, 12.0
_RUN_SECONDS = 480.0
_WAIT_SECONDS = 150.0
_MEMORY = Path("/dev/shm")

console = Console(highlight=False, soft_wrap=True)


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one intake. Rates are events a second."""

    admission_alone: float  # request published -> work read, no GPU consumer beside it
    gpu_consumer_alone: float  # work -> result read, draining what admission had produced
    together: float  # request published -> result read
    latency: Latency  # the same at a low load


def main() -> int:
    """Measure, report, and say by the exit status whether every bar was met."""
    deadline = Deadline(_RUN_SECONDS)
    folder = FOLDER / f"pipeline-{os.getpid()}"
    store = Path(tempfile.mkdtemp(prefix="promptkiln-bench-", dir=_MEMORY if _MEMORY.is_dir() else None))
    try:
        with broker(folder / "home", console) as bootstrap:
            copy_rate, copy_latency = measure_copy_loop(bootstrap, folder, deadline)
            console.print(f"copy loop: {copy_rate:,.0f} events/s, p50 {copy_latency.p50 * 1000:.0f} ms")
            figures = {}
            for intake in ("plain", "faust"):
                figures[intake] = measure_pipeline(bootstrap, folder, store, intake, deadline)
                console.print(f"{intake}: {figures[intake]}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(store, ignore_errors=True)
    return 0 if report("pipeline", measures_of(copy_rate, copy_latency, figures), console) else 1


def measures_of(copy_rate: float, copy: Latency, figures: Mapping[str, Figures]) -> dict[str, Measure]:
    """Facts first, then the ratios that carry bars."""
    measures = {
        "copy_loop": Measure(copy_rate, "events/s", "higher"),
        "copy_loop_p50": Measure(copy.p50 * 1000, "ms", "lower"),
        "copy_loop_p95": Measure(copy.p95 * 1000, "ms", "lower"),
    }
    for intake, each in figures.items():
        measures |= {
            f"{intake}_admission": Measure(each.admission_alone, "events/s", "higher"),
            f"{intake}_gpu_consumer": Measure(each.gpu_consumer_alone, "events/s", "higher"),
            f"{intake}_end_to_end": Measure(each.together, "events/s", "higher"),
            f"{intake}_p50": Measure(each.latency.p50 * 1000, "ms", "lower"),
            f"{intake}_p95": Measure(each.latency.p95 * 1000, "ms", "lower"),
        }
    for intake, each in figures.items():
        measures |= {
            f"{intake}_admission_to_copy": Measure(
                each.admission_alone / copy_rate, "x", "higher", goal=0.25, bar=0.1, peer="copy loop"
            ),
            f"{intake}_end_to_end_to_copy": Measure(
                each.together / copy_rate, "x", "higher", goal=0.06, bar=0.02, peer="copy loop"
            ),
            f"{intake}_p50_to_copy": Measure(
                each.latency.p50 / copy.p50, "x", "lower", goal=3, bar=8, peer="copy loop"
            ),
        }
    return measures


def measure_copy_loop(bootstrap: str, folder: Path, deadline: Deadline) -> tuple[float, Latency]:
    """Events a second and latency of the peer, with the records that the pipeline gets."""
    world = deployment(bootstrap, folder, "copy", {})
    with copy_loop(world, validating=False) as (watcher, _):
        publisher = Publisher(bootstrap, world.catalogue.requests)
        burst(publisher, watcher, _WARM_UP, deadline)
        rate = burst(publisher, watcher, _COPY_BURST, deadline)
        return rate, drip(publisher, watcher, _DRIP_PER_SECOND, _DRIP_SECONDS, deadline)


def measure_pipeline(bootstrap: str, folder: Path, store: Path, intake: str, deadline: Deadline) -> Figures:
    """Admission alone, the GPU consumer alone, then both together."""
    settings = {
        "KILN_ADMISSION_SERVICE_INTAKE": intake,
        "KILN_GPU_ENGINE": "instant",
        "KILN_GPU_PRELOAD": "",
        "KILN_GPU_BATCH_WAIT_SECONDS": "0",
        "KILN_STORE_URL": (store / intake).as_uri(),
    }
    world = deployment(bootstrap, folder, intake, settings)
    catalogue = world.catalogue
    admission, consumer = world.child(Kind.ADMISSION, 0, {}), world.child(Kind.GPU, 0, {})
    results = [(catalogue.results, partition) for partition in range(catalogue.requests_partitions)]
    publisher = Publisher(bootstrap, catalogue.requests)
    with running([admission, consumer], deadline):
        start(admission, bootstrap, catalogue.admission_group, deadline)
        with closing(Watcher(bootstrap, work_of(world))) as watcher:
            burst(publisher, watcher, _WARM_UP, deadline)
            admission_alone = _bursts(publisher, watcher, deadline)
        with closing(Watcher(bootstrap, results)) as watcher:
            start(consumer, bootstrap, catalogue.gpu_group(POOL), deadline)
            watcher.wait(_WARM_UP + _BURSTS * _BURST, min(_WAIT_SECONDS, deadline.left))
            moments = watcher.moments()
            # Neither the joining nor the first cold batches.
            gpu_alone = (len(moments) - _WARM_UP) / (moments[-1] - moments[_WARM_UP])
            together = _bursts(publisher, watcher, deadline)
            latency = drip(publisher, watcher, _DRIP_PER_SECOND, _DRIP_SECONDS, deadline)
    return Figures(admission_alone, gpu_alone, together, latency)


def _bursts(publisher: Publisher, watcher: Watcher, deadline: Deadline) -> float:
    """The median of a few, for a neighbour of the machine may take one."""
    return statistics.median(burst(publisher, watcher, _BURST, deadline) for _ in range(_BURSTS))


if __name__ == "__main__":
    sys.exit(main())
