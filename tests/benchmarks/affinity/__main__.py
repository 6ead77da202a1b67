"""bench-affinity: what it is worth that work goes to where its model is loaded.

    python -m tests.benchmarks.affinity

The product's router, assignor and scheduler on a virtual clock, beside arrival order: requests spread over all
partitions, the first that came runs next, with those of its configuration that come within the same batching window.
Between them stands routing by the hash of the configuration, with our scheduler. The same seeds give the same figures
everywhere. Exit status 1 where a bar is missed.
"""

import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Literal

from rich.console import Console

from gpu_consumer.memory import quantile_of
from gpu_consumer.scheduling.scheduler import Scheduler
from infra.planner.deciding import PlacedRouter
from infra.planner.given import Queue, Router
from infra.planner.house import House
from infra.planner.pool import Pool
from tests.benchmarks.affinity.policies import ArrivalOrder, HashRouter, SpreadRouter
from tests.benchmarks.affinity.seen import Device, Seen, Steps
from tests.benchmarks.affinity.workload import CONFIGS, MODELS, configs, poisson
from tests.benchmarks.report import Measure, report

PARTITIONS = 48  # four times as many as consumers at the most, so that any number of consumers shares them about evenly
CONSUMERS = 8
CHANGING = ((0.0, 8), (0.4, 12), (0.7, 6))  # from which share of the time on
SEEDS = (1, 2, 3)
SECONDS = {"alone": 20_000.0, "batched": 8_000.0}
SETTLING = {"alone": 100_000.0, "batched": 16_000.0}  # at 0.9 of what it can do a queue takes its time to be typical
WARM = 3_000.0  # what begins before is not counted
OVERLOAD = 1.5  # of what the devices could do without a swap: somebody always waits
CARRIED = 0.9  # of what arrival order can do
BATCH_WAIT, BACKLOG, LOOK_AHEAD = 0.25, 512, 256  # as in the consumer's settings
AFFINITY_WAIT = 240.0  # seconds: about ten swaps, as the setting advises

# A run that takes as long whatever its batch: each picture is a run. And one of which 8 together cost as 2 alone.
DEVICES = {"alone": Device(base=23.0, each=0.0, bucket=1), "batched": Device(base=6.0, each=1.0, bucket=8)}
OF_FIFO_BARS = {"alone": 1.65, "batched": 4.0}
OF_LIMIT_BARS: dict[str, float | None] = {"alone": 0.80, "batched": None}
BUSIEST_BAR = 1.25
P99_BAR = 0.5

console = Console(highlight=False, soft_wrap=True)
Policy = Literal["placed", "hashed", "fifo"]
ROUTERS: dict[Policy, type[PlacedRouter] | type[HashRouter] | type[SpreadRouter]] = {
    "placed": PlacedRouter,
    "hashed": HashRouter,
    "fifo": SpreadRouter,
}


@dataclass(frozen=True, slots=True)
class Case:
    """`load` in pictures a second for each consumer there is. `sizes`: how many these are from each share of the time
    on."""

    device: str
    policy: Policy
    load: float
    seconds: float
    seed: int
    sizes: tuple[tuple[float, int], ...] = ((0.0, CONSUMERS),)


def simulate(case: Case) -> Seen:
    device = DEVICES[case.device]
    router: Router = ROUTERS[case.policy](PARTITIONS)

    def queue() -> Queue:
        if case.policy == "fifo":
            return ArrivalOrder(device.bucket, BATCH_WAIT, arrivals)
        return Scheduler(BATCH_WAIT, affinity_wait_seconds=AFFINITY_WAIT, look_ahead=LOOK_AHEAD)

    sizes = {share * case.seconds: size for share, size in case.sizes}
    rates = {moment: size * case.load for moment, size in sizes.items()}
    asked = list(poisson(configs(case.seed, device.bucket, device.seconds_alone), rates, case.seconds, case.seed))
    arrivals = [request.arrival for request in asked]
    seen = Seen(WARM)
    house = House(PARTITIONS, models_held=1, rebalance_seconds=0.0, backlog_max=BACKLOG)
    pool = Pool(device, house, router, queue, seen)
    pool.run(asked, case.seconds, Steps(sizes, seen))
    seen.count_phase([each.name for each in pool.staying()])
    return seen


def main() -> int:
    """Measure, report, and say by the exit status whether every bar was met."""
    console.print(
        f"{CONFIGS} configurations of {MODELS} models, {CONSUMERS} consumers, {PARTITIONS} partitions; a swap takes "
        f"{DEVICES['alone'].swap} s, affinity waits {AFFINITY_WAIT:.0f} s; the worst of {len(SEEDS)} seeds"
    )
    measures: dict[str, Measure] = {}
    with ProcessPoolExecutor() as workers:
        for device in DEVICES:
            measures |= {f"{device}: {name}": each for name, each in _measure(device, workers).items()}
    return 0 if report("affinity", measures, console) else 1


def _measure(device: str, workers: ProcessPoolExecutor) -> dict[str, Measure]:
    limit, seconds, settling = DEVICES[device].rate_max, SECONDS[device], SETTLING[device]

    def run(policy: Policy, loads: Iterable[float], seconds: float, *, changing: bool = False) -> list[Seen]:
        sizes = {"sizes": CHANGING} if changing else {}
        cases = [Case(device, policy, load, seconds, seed, **sizes) for load, seed in zip(loads, SEEDS, strict=True)]
        return list(workers.map(simulate, cases))

    full = [OVERLOAD * limit] * len(SEEDS)
    placed, hashed, fifo = (run(policy, full, seconds) for policy in ROUTERS)
    placed_changing, fifo_changing = (run(policy, full, seconds, changing=True) for policy in ("placed", "fifo"))
    carried = [CARRIED * each.done / (seconds - WARM) / CONSUMERS for each in fifo]
    below = [run(policy, carried, settling) for policy in ("placed", "fifo")]
    below_changing = [run(policy, carried, settling, changing=True) for policy in ("placed", "fifo")]
    of_limit = min(each.done for each in placed) / (seconds - WARM) / CONSUMERS / limit
    swapped = {"": placed, ", by hash": hashed, ", arrival order": fifo}
    return {
        "throughput": _ratio(placed, fifo, OF_FIFO_BARS[device]),
        "throughput, 8 to 12 to 6": _ratio(placed_changing, fifo_changing, OF_FIFO_BARS[device]),
        "of full batches without a swap": Measure(of_limit, "share", "higher", bar=OF_LIMIT_BARS[device]),
        **{f"swaps a run{who}": _swapped(seen) for who, seen in swapped.items()},
        "busiest consumer": _busiest(placed, BUSIEST_BAR),
        "busiest consumer, 8 to 12 to 6": _busiest(placed_changing, BUSIEST_BAR),
        "busiest consumer, by hash": _busiest(hashed, None),
        "P99 wait": _p99(*below),
        "P99 wait, 8 to 12 to 6": _p99(*below_changing),
    }


def _ratio(ours: Sequence[Seen], fifo: Sequence[Seen], bar: float) -> Measure:
    worst = min(mine.done / theirs.done for mine, theirs in zip(ours, fifo, strict=True))
    return Measure(worst, "ratio", "higher", bar=bar, peer="arrival order")


def _swapped(seen: Iterable[Seen]) -> Measure:
    return Measure(max(each.swapped for each in seen), "share", "lower")


def _busiest(seen: Iterable[Seen], bar: float | None) -> Measure:
    return Measure(max(each.busiest for each in seen), "of mean", "lower", bar=bar)


def _p99(ours: Sequence[Seen], fifo: Sequence[Seen]) -> Measure:
    pairs = [(quantile_of(m.waits, 0.99), quantile_of(f.waits, 0.99)) for m, f in zip(ours, fifo, strict=True)]
    return Measure(max(mine / theirs for mine, theirs in pairs), "ratio", "lower", bar=P99_BAR, peer="arrival order")


if __name__ == "__main__":
    sys.exit(main())
