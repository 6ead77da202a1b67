"""bench-fairness: what one tenant's flood costs another.

    python -m tests.benchmarks.fairness

A tenant asks in bursts, for a third of what the GPU can do. Then another floods the pool with 10,000 requests: all at
once, through 50 keys, and in bursts of the same shape. Admission's decide(), the consumer's scheduler and the step
loop's rules on a virtual clock: the same figures everywhere. Exit status 1 where a bar is missed.

Bursts have the shape of a public trace where that lies beside the repository, else of a process with its variation.
One who asks for one picture at a time finds the slots of a flood taken, and all of them end at the same step: it may
wait for as long as a picture takes. That stands in the table, without a bar.
"""

import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from typing import Literal

from rich.console import Console

from gpu_consumer.engine.virtual.device import VirtualDevice
from gpu_consumer.memory import quantile_of
from schemas.request import Lane
from schemas.tenants import KeyQuota, Quota, Tenants
from tests.benchmarks.fairness.house import House, Seen, world_of
from tests.benchmarks.fairness.workload import KEYS, TRACE, Ask, bursts, evenly, flood, mixed
from tests.benchmarks.report import Measure, report

FLOOD = 10_000
LOAD = 0.3  # of the full-batch limit: what the other tenant asks for
STEPS, BUCKET, AHEAD = 28, 4, 1  # as a configuration has it by default, and the consumer's settings
OUTSTANDING_PICTURES = 20  # of a tenant in its lane; what is more goes to bulk
BEGINS = 60.0  # seconds: when the flood comes
P95_BAR = 1.2
LOST_BAR = 0.02

Shape = Literal["none", "at once", "50 keys", "bursts"]
console = Console(highlight=False, soft_wrap=True)
DEVICE = VirtualDevice()
LIMIT = 1 / DEVICE.full_batch_seconds(BUCKET, STEPS)  # pictures a second
ASKED = round(FLOOD * LOAD / (1 - LOAD))  # by the other tenant while the flood lasts


@dataclass(frozen=True, slots=True)
class Case:
    """`lane`: of the other tenant, who asks in bursts or one at a time. `fair`: with shares; else all are one tenant's
    and wait in one lane."""

    flood: Shape
    lane: Lane = "standard"
    bursty: bool = True
    fair: bool = True
    seed: int = 0


def simulate(case: Case) -> Seen:
    rate = LOAD * LIMIT
    moments = bursts(ASKED, rate, case.seed) if case.bursty else evenly(ASKED, rate, case.seed)
    asks = mixed([Ask(at, "other", case.lane) for at in moments], _flood(case.flood, case.seed))
    bound = OUTSTANDING_PICTURES / LIMIT
    plenty = Quota(per_second=1e6, burst=1e6, default_key=KeyQuota(per_second=1e6, burst=1e6))
    quota = plenty.model_copy(update={"outstanding_gpu_seconds": bound})
    tenants = Tenants(default=quota, tenants={"other": plenty})
    if not case.fair:
        tenants, asks = Tenants(default=plenty), [replace(ask, tenant="one", lane="standard") for ask in asks]
    return House(world_of(tenants, STEPS, BUCKET, DEVICE), BUCKET, AHEAD, DEVICE).run(asks)


def _flood(shape: Shape, seed: int) -> list[Ask]:
    match shape:
        case "none":
            return []
        case "bursts":
            return flood([BEGINS + at for at in bursts(FLOOD, 2 * LIMIT, seed + 1)])
        case _:
            return flood([BEGINS] * FLOOD, keys=KEYS if shape == "50 keys" else 0)


def main() -> int:
    """Measure, report, and say by the exit status whether every bar was met."""
    beside = "the trace" if TRACE.exists() else "a drawn process, for the trace is not there"
    console.print(f"{FLOOD} requests beside {ASKED} of another tenant; bursts in the shape of {beside}")
    floods: tuple[Shape, ...] = ("at once", "50 keys", "bursts")
    cases = {
        "alone": Case("none"),
        **{f"P95 beside a flood, {shape}": Case(shape) for shape in floods},
        "interactive, alone": Case("none", "interactive"),
        "P95 in interactive beside a flood, at once": Case("at once", "interactive"),
        "one at a time, alone": Case("none", bursty=False),
        "P95 one at a time beside a flood, at once": Case("at once", bursty=False),
        "unfair": Case("at once", fair=False),
    }
    with ProcessPoolExecutor() as workers:
        seen = dict(zip(cases, workers.map(simulate, cases.values()), strict=True))
    measures = {
        name: _ratio(seen, name, alone, bar)
        for alone, names, bar in (
            ("alone", [f"P95 beside a flood, {shape}" for shape in floods], P95_BAR),
            ("interactive, alone", ["P95 in interactive beside a flood, at once"], P95_BAR),
            ("one at a time, alone", ["P95 one at a time beside a flood, at once"], None),
        )
        for name in names
    }
    fair, unfair = (_throughput(seen[name]) for name in ("P95 beside a flood, at once", "unfair"))
    measures["throughput lost"] = Measure(1 - fair / unfair, "share", "lower", bar=LOST_BAR, peer="one queue")
    measures["of the full-batch limit"] = Measure(fair / LIMIT, "share", "higher")
    return 0 if report("fairness", measures, console) else 1


def _ratio(seen: dict[str, Seen], name: str, alone: str, bar: float | None) -> Measure:
    return Measure(
        _p95(seen[name].took["other"]) / _p95(seen[alone].took["other"]), "ratio", "lower", bar=bar, peer="alone"
    )


def _p95(seconds: Sequence[float]) -> float:
    return quantile_of(seconds, 0.95)


def _throughput(seen: Seen) -> float:
    """While somebody waited."""
    return seen.full_pictures / seen.full_seconds


if __name__ == "__main__":
    sys.exit(main())
