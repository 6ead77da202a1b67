"""The comparison on a virtual clock: no process, no sleep, no noise. The same seeds give the same figures everywhere.

The load is a share of the full-batch limit: what the device could do if no slot of our bucket were ever empty, in any
stage. Each baseline is free to take any batch size, has its knobs set after the fact, for the very arrivals that are
measured, and pays for no padding; ours has the product's settings and pays for a full bucket at every step.
"""

from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from gpu_consumer.engine.virtual.device import VirtualDevice
from gpu_consumer.engine.virtual.loop import VirtualLoop
from gpu_consumer.memory import quantile_of
from tests.benchmarks.batching import ours
from tests.benchmarks.batching.baselines import BASELINES, Tuned, saturated, tuned
from tests.benchmarks.batching.workload import MEAN_STEPS, STEP_COUNTS, backlog, poisson
from tests.benchmarks.report import Measure

# A padded step takes as long with one picture in it as with a full bucket. By the table, a bucket of 4 does 0.87 of the
# most that the device can do, in steps of 0.24 s; one of 8 does 0.98, but then the longest picture, alone and at once,
# takes 0.50 of the best baseline's P95, and with 16 it takes 0.95. 4 is also a configuration's default.
BUCKET = 4
OTHER_BUCKETS = (8, 16)
SEEDS = (1, 2, 3)
JOBS = 20_000  # at 8,000 the ratio still moves by 0.02 from seed to seed
FACT_JOBS = 8_000
SATURATED_JOBS = 3000
LOAD = 0.7
OTHER_LOADS = (0.5, 0.9)

SATURATION_BAR = 0.97
P95_BAR = 0.55


@dataclass(frozen=True, slots=True)
class Case:
    """One simulation. `decode_bucket`: None as the product has it."""

    bucket: int
    load: float
    jobs: int = FACT_JOBS
    seed: int = SEEDS[0]
    decode_bucket: int | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """Seconds of the device that 0.95 of the pictures did not exceed, from arrival to picture."""

    case: Case
    ours: float
    baselines: tuple[Tuned, ...]

    @property
    def best(self) -> Tuned:
        return min(self.baselines, key=lambda each: each.p95)

    @property
    def ratio(self) -> float:
        return self.ours / self.best.p95


def simulate(case: Case) -> Seen:
    device = VirtualDevice()
    jobs = poisson(case.load / device.full_batch_seconds(case.bucket, MEAN_STEPS), case.jobs, case.seed)
    run = ours.run(jobs, case.bucket, VirtualLoop(device, decode_bucket=case.decode_bucket))
    p95 = quantile_of([done - job.arrival for done, job in zip(run.finished, jobs, strict=True)], 0.95)
    return Seen(case, p95, tuple(tuned(name, jobs, device) for name in BASELINES))


def saturate(bucket: int, seed: int, decode_bucket: int | None = None) -> float:
    """Throughput while somebody always waits, as a share of the full-batch limit."""
    device = VirtualDevice()
    run = ours.run(backlog(SATURATED_JOBS, seed), bucket, VirtualLoop(device, decode_bucket=decode_bucket))
    return run.full_steps / MEAN_STEPS / run.full_seconds * device.full_batch_seconds(bucket, MEAN_STEPS)


def measure(workers: int) -> dict[str, Measure]:
    """All of it, in so many processes."""
    cases = [Case(BUCKET, LOAD, JOBS, seed) for seed in SEEDS]
    cases += [Case(BUCKET, load) for load in OTHER_LOADS]
    cases += [Case(bucket, LOAD) for bucket in OTHER_BUCKETS]
    cases += [Case(BUCKET, LOAD, decode_bucket=1)]
    with ProcessPoolExecutor(workers) as pool:
        saturations = [pool.submit(saturate, BUCKET, seed) for seed in SEEDS]
        others = {bucket: pool.submit(saturate, bucket, SEEDS[0]) for bucket in OTHER_BUCKETS}
        apart = pool.submit(saturate, BUCKET, SEEDS[0], 1)
        peers = {name: pool.submit(_saturated, name) for name in BASELINES}
        seen = list(pool.map(simulate, cases))
        best = max(peers, key=lambda name: peers[name].result())
        measures = {
            "saturation": Measure(
                min(each.result() for each in saturations),
                "ratio",
                "higher",
                bar=SATURATION_BAR,
                peer="full-batch limit",
            ),
            "saturation, baseline": Measure(peers[best].result(), "ratio", "higher", peer=f"{best}, unpadded, to 16"),
        }
        measures |= _latency(seen[: len(SEEDS)])
        measures |= {f"P95 at {each.case.load}": _ratio(each) for each in seen if each.case.load != LOAD}
        measures |= _buckets(seen, {bucket: each.result() for bucket, each in others.items()})
        measures["decode singly, saturation"] = Measure(apart.result(), "ratio", "higher", peer="full-batch limit")
        measures[f"decode singly, P95 at {LOAD}"] = _ratio(seen[-1])
    return measures


def _saturated(name: str) -> float:
    device = VirtualDevice()
    return saturated(name, backlog(SATURATED_JOBS, SEEDS[0]), device) * device.full_batch_seconds(BUCKET, MEAN_STEPS)


def _latency(by_seed: list[Seen]) -> dict[str, Measure]:
    worst = max(by_seed, key=lambda seen: seen.ratio)
    measures = {
        f"P95 at {LOAD}, worst seed": _ratio(worst, bar=P95_BAR),
        f"P95 at {LOAD}, median seed": _ratio(sorted(by_seed, key=lambda seen: seen.ratio)[len(by_seed) // 2]),
        f"P95 at {LOAD}, ours": Measure(worst.ours, "s", "lower", peer="seconds of the device"),
    }
    for each in worst.baselines:
        measures[f"P95 at {LOAD}, {each.name}"] = Measure(each.p95, "s", "lower", peer=_knobs(each))
    return measures


def _ratio(seen: Seen, bar: float | None = None) -> Measure:
    return Measure(seen.ratio, "ratio", "lower", bar=bar, peer=f"{seen.best.name}, {_knobs(seen.best)}")


def _buckets(seen: Iterable[Seen], full: dict[int, float]) -> dict[str, Measure]:
    """What a larger bucket would give: facts. `floor`: the longest picture, alone, without any wait."""
    device = VirtualDevice()
    measures = {}
    for each in seen:
        bucket = each.case.bucket
        if bucket not in OTHER_BUCKETS:
            continue
        floor = max(STEP_COUNTS) * device.step_seconds(bucket) / each.best.p95
        measures[f"bucket {bucket}, saturation"] = Measure(full[bucket], "ratio", "higher", peer="its full-batch limit")
        measures[f"bucket {bucket}, P95 at {LOAD}"] = _ratio(each)
        measures[f"bucket {bucket}, floor of it"] = Measure(floor, "ratio", "lower", peer="padded steps alone")
    return measures


def _knobs(best: Tuned) -> str:
    return f"{best.knobs.size} in {best.knobs.wait:g} s"
