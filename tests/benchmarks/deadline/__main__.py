"""bench-deadline: how many deadlines are met when more is asked for than can be done in time.

    python -m tests.benchmarks.deadline

One GPU, requests of 4, 10 and 30 seconds in bursts, each to be done 30 to 300 s after it could be at the earliest, at
0.8 to 1.2 of what the GPU can do. Deadline goodput: the share of requests that end in time. The consumer's scheduler
stands beside rows in the order of arrival: an eager one that looks at no deadline, and the harder peer, which begins
nothing that is over and ends what gets late; and beside a bound that knows all arrivals and may cut requests to pieces.
A virtual clock: the same figures everywhere. Exit status 1 where a bar is missed.
"""

import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from rich.console import Console

from tests.benchmarks.deadline.bound import bound
from tests.benchmarks.deadline.simulate import Case, Row, asked, eager, ours, simulate
from tests.benchmarks.report import Measure, report

LOADS = (0.8, 0.9, 1.0, 1.1, 1.2)
SEEDS = (1, 2, 3)
FIFO_BAR, BOUND_BAR = 1.3, 0.9
TENANTS = 4

console = Console(highlight=False, soft_wrap=True)


@dataclass(frozen=True, slots=True)
class Seen:
    """Requests in time."""

    ours: int
    fifo: int
    eager: int
    bound: float
    ours_fair: int  # the same work of several tenants, in turns
    asked: int


def measure(case: Case) -> Seen:
    requests = asked(case)
    shared = asked(Case(case.load, case.seed, case.requests, TENANTS))
    return Seen(
        ours=simulate(requests, ours).in_time,
        fifo=simulate(requests, Row).in_time,
        eager=eager(requests),
        bound=bound(requests),
        ours_fair=simulate(shared, ours).in_time,
        asked=len(requests),
    )


def main() -> int:
    """Measure, report, and say by the exit status whether every bar was met."""
    cases = [Case(load, seed) for load in LOADS for seed in SEEDS]
    with ProcessPoolExecutor() as workers:
        every = list(zip(cases, workers.map(measure, cases), strict=True))
    measures: dict[str, Measure] = {}
    for load in LOADS:
        seen = [each for case, each in every if case.load == load]
        measures |= {
            f"{load}: in time": Measure(min(each.ours / each.asked for each in seen), "share", "higher"),
            f"{load}: of arrival order": _least(seen, "fifo", FIFO_BAR, "drops the late"),
            f"{load}: of eager arrival order": _least(seen, "eager", FIFO_BAR, "eager"),
            f"{load}: of the bound": Measure(
                min(each.ours / each.bound for each in seen), "share", "higher", bar=BOUND_BAR, peer="offline"
            ),
            f"{load}: of the bound, {TENANTS} tenants in turns": Measure(
                min(each.ours_fair / each.bound for each in seen), "share", "higher", peer="offline"
            ),
        }
    return 0 if report("deadline", measures, console) else 1


def _least(seen: list[Seen], peer: str, bar: float, name: str) -> Measure:
    worst = min(each.ours / max(1, getattr(each, peer)) for each in seen)
    return Measure(worst, "ratio", "higher", bar=bar, peer=name)


if __name__ == "__main__":
    sys.exit(main())
