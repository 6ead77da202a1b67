"""bench-autoscale: what a week costs with each way to scale, and which deadlines it misses.

    python -m tests.benchmarks.autoscale

One week's shape at 8 times its speed, through the planner: the product's router, assignor and scheduler, the HPA's and
KEDA's algorithms, on a virtual clock; the same figures everywhere. Of the ways that have settings (so many replicas, a
utilisation, a threshold of lag with its window and its least) every setting of a grid is tried, and the cheapest that
makes 99 % in time stands for it. Ours has one setting. The oracle knows what will come while a replica loads; where
another way did better, it does the same.
Exit status 1 where a bar is missed.
"""

import sys
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache

from rich.console import Console

from infra.planner.deciding import Routed
from infra.planner.house import House
from infra.planner.oracle import HEADROOMS
from infra.planner.replay import replay
from infra.planner.request import Request
from infra.planner.scalers import Rules
from infra.planner.ways import Asked, Way, scaler_of
from infra.scaling.hpa import Behaviour, Policy
from infra.scaling.hpa import Rules as Direction
from schemas.pools import Pool
from tests.benchmarks.autoscale.workload import requests, until
from tests.benchmarks.report import Measure, report

LOADS = (45.0, 120.0)
REPLICAS_MAX = 32
SWAP_SECONDS = 10.0  # at the first use of a model after a start: a card holds them all
IN_TIME_BAR = 0.99
SAVED_BAR = 0.25  # GPU-hours, beside the cheapest plain lag of equal service, at the longer cold start
SEED = 1
REPLICAS_A_MINUTE = 16  # out and in, for all of them
THRESHOLDS, WINDOWS, LEASTS = (4, 6, 8, 12, 16, 32), (0, 60, 120, 300), (0, 2)
UTILISATIONS = (0.5, 0.65, 0.8)
SIZES = (6, 8, 10, 12, 16, 24, 32)
TARGET, WINDOW = 900.0, 300  # ours: so long may wait what has no deadline; and the window of scaling in

WAYS: dict[Way, str] = {
    "fixed": "fixed", "utilisation": "utilisation", "lag": "lag", "gpu_seconds": "ours", "oracle": "oracle",
}  # fmt: skip
console = Console(highlight=False, soft_wrap=True)


@dataclass(frozen=True, slots=True)
class Case:
    """`setting`: replicas, a utilisation, a threshold, a target or headroom, as the way has it."""

    way: Way
    load_seconds: float
    setting: float = 0.0
    window: int = 0
    least: int = 0

    def __str__(self) -> str:
        match self.way:
            case "fixed":
                return f"{self.setting:g} replicas"
            case "utilisation":
                return f"{self.setting:.0%}, window {self.window} s"
            case "lag":
                return f"threshold {self.setting:g}, window {self.window} s, at least {self.least}"
            case _:
                return ""


@dataclass(frozen=True, slots=True)
class Seen:
    gpu_hours: float
    in_time: float
    missed: int
    busy: float


@cache
def _week() -> tuple[list[Request], Routed, float]:
    """Once for a worker's process."""
    asked = requests(SEED)
    return asked, Routed.of(asked, 2 * REPLICAS_MAX), until()


def simulate(case: Case) -> Seen:
    asked, router, end = _week()
    out = Direction(0, (Policy("Pods", REPLICAS_A_MINUTE, 60),))
    back = Direction(case.window, (Policy("Pods", REPLICAS_A_MINUTE, 60),))
    rules = Rules(Behaviour(out, back), case.least, REPLICAS_MAX)
    pool = Pool(
        gpu_product="H200", vram_bytes=1, price_usd_per_hour=4.0, replicas_max=REPLICAS_MAX,
        partitions=2 * REPLICAS_MAX, load_seconds=case.load_seconds,
    )  # fmt: skip
    scaler = scaler_of(case.way, case.setting, rules, pool, Asked(asked, end))
    seen = replay(asked, House(pool.partitions, case.load_seconds, SWAP_SECONDS), scaler, end, router=router)
    return Seen(seen.gpu_hours, seen.share_in_time, seen.missed, seen.busy)


def cases(load: float) -> Iterable[Case]:
    yield from (Case("fixed", load, size) for size in SIZES)
    yield from (Case("utilisation", load, share, window) for share in UTILISATIONS for window in (120, 300))
    yield from (
        Case("lag", load, threshold, window, least)
        for threshold in THRESHOLDS
        for window in WINDOWS
        for least in LEASTS
    )
    yield Case("gpu_seconds", load, TARGET, WINDOW)
    yield from (Case("oracle", load, headroom) for headroom in HEADROOMS)


def main() -> int:
    """Measure, report, and say by the exit status whether every bar was met."""
    asked = requests(SEED)
    work = sum(request.seconds for request in asked) / 3600
    console.print(f"{len(asked)} requests, {work:.0f} GPU-hours of work; no more than {REPLICAS_MAX} replicas")
    every = [case for load in LOADS for case in cases(load)]
    with ProcessPoolExecutor() as workers:
        seen = dict(zip(every, workers.map(simulate, every), strict=True))
    measures: dict[str, Measure] = {}
    for load in LOADS:
        measures |= _measures(load, {case: each for case, each in seen.items() if case.load_seconds == load})
    return 0 if report("autoscale", measures, console) else 1


def _measures(load: float, seen: dict[Case, Seen]) -> dict[str, Measure]:
    measures: dict[str, Measure] = {}
    best = {way: _cheapest({case: each for case, each in seen.items() if way in (case.way, "oracle")}) for way in WAYS}
    for way, (case, each) in best.items():
        name = WAYS[way]
        console.print(
            f"{load:.0f} s, {name:<11} {each.gpu_hours:6.1f} GPU-hours, {each.in_time:.2%} in time, {each.missed} late,"
            f" busy {each.busy:.0%}  {case}"
        )
        bar = IN_TIME_BAR if way == "gpu_seconds" else None
        measures[f"{load:.0f} s: {name}, GPU-hours"] = Measure(each.gpu_hours, "hours", "lower")
        measures[f"{load:.0f} s: {name}, in time"] = Measure(each.in_time, "share", "higher", bar=bar)
    ours = best["gpu_seconds"][1]
    plain = _cheapest({case: each for case, each in seen.items() if case.way == "lag"}, ours.in_time)[1]
    for name, peer in (("of equal service", plain), ("of 99 %", best["lag"][1])):
        saved = 1 - ours.gpu_hours / peer.gpu_hours
        bar = SAVED_BAR if load == max(LOADS) and peer is plain else None
        measures[f"{load:.0f} s: saved, {name}"] = Measure(saved, "share", "higher", bar=bar, peer="plain lag")
    return measures


def _cheapest(seen: dict[Case, Seen], in_time: float = IN_TIME_BAR) -> tuple[Case, Seen]:
    """Of those that make so much in time; where none does, the one that makes most."""
    enough = {case: each for case, each in seen.items() if each.in_time >= in_time}
    if not enough:
        return max(seen.items(), key=lambda pair: pair[1].in_time)
    return min(enough.items(), key=lambda pair: pair[1].gpu_hours)


if __name__ == "__main__":
    sys.exit(main())
