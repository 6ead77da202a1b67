"""bench-batching: step batching beside batchers that run a batch to its end.

    python -m tests.benchmarks.batching [--peers all | none | ray,litserve,bentoml]

First on a virtual clock, where noise decides nothing: throughput at saturation against the full-batch limit, and P95
latency against fill-then-split, pad-to-max and per-key batching, each at its best. Then the same kind of arrivals in
scaled real time, against Ray Serve, LitServe and BentoML around the same device, each in an environment of its own,
which is made on the first run. No absolute time is a bar. Exit status 1 where a bar is missed or a server fails; a peer
that cannot be installed is left out, and said to be.
"""

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Sequence

from rich.console import Console

from gpu_consumer.engine.virtual.clock import VirtualClock
from gpu_consumer.engine.virtual.device import VirtualDevice
from gpu_consumer.memory import quantile_of
from tests.benchmarks.batching import real_time, virtual_time
from tests.benchmarks.batching.baselines import EagerPadToMax, Knobs, PadToMax, tuned
from tests.benchmarks.batching.peers import PEERS, Peer, serving
from tests.benchmarks.batching.virtual_time import BUCKET, LOAD, SEEDS
from tests.benchmarks.batching.workload import MEAN_STEPS, Job, poisson
from tests.benchmarks.environments import NotInstallable, environment
from tests.benchmarks.report import Measure, report

# A step of a full bucket takes 5 ms then, some ten times what a sleep of this kind is late by on a quiet machine.
SCALE = 1 / 50
JOBS = 300
TWO_SETTINGS_SECONDS = 240  # so that all of it ends within six minutes on two busy cores

console = Console(highlight=False, soft_wrap=True)


def main() -> int:
    """Measure, report, and say by the exit status whether every bar was met."""
    one_setting_after = time.monotonic() + TWO_SETTINGS_SECONDS
    peers = _arguments()
    device = VirtualDevice()
    limit = 1 / device.full_batch_seconds(BUCKET, MEAN_STEPS)
    console.print(
        f"bucket {BUCKET}: a step {device.step_seconds(BUCKET):g} s, text {device.text_seconds(BUCKET):g} s"
        f", decode {device.decode_seconds(BUCKET):g} s; full-batch limit {limit:.3f} pictures/s"
    )
    measures = virtual_time.measure(os.cpu_count() or 1)
    failed = False
    if peers:
        jobs = poisson(LOAD * limit, JOBS, SEEDS[0])
        seen, clock = asyncio.run(real_time.ours(jobs, BUCKET, SCALE))
        measures["real time, ours"] = Measure(seen.p95, "s", "lower", peer=f"P95, scale 1/{1 / SCALE:g}")
        measures |= _jitter(clock)
        for peer in peers:
            try:
                measures |= _beside(peer, seen, jobs, device, one_setting_after)
            except NotInstallable as reason:
                console.print(str(reason))
            except real_time.ServerFailed as reason:
                console.print(str(reason))
                failed = True
    return 0 if report("batching", measures, console) and not failed else 1


def _arguments() -> list[Peer]:
    parser = argparse.ArgumentParser(prog="bench-batching")
    parser.add_argument("--peers", default="all", help=f"all, none, or some of {','.join(PEERS)}")
    wanted = parser.parse_args().peers
    names = list(PEERS) if wanted == "all" else [] if wanted == "none" else wanted.split(",")
    if unknown := set(names) - PEERS.keys():
        parser.error(f"no peer is called {', '.join(sorted(unknown))}; there are {', '.join(PEERS)}")
    return [PEERS[name] for name in names]


def _beside(
    peer: Peer, ours: real_time.Seen, jobs: Sequence[Job], device: VirtualDevice, one_setting_after: float
) -> dict[str, Measure]:
    """The better of two settings of its knobs: what is best on the virtual clock if batches are formed when the device
    is free, and if they are formed before, as Ray Serve does.

    Any step counts may share its batch, which runs as long as the longest. It answers a batch as a whole: if that were
    split by step count, the first part would wait for the last.
    """
    python = environment(peer.name, peer.package)
    best: tuple[real_time.Seen, Knobs] | None = None
    settings = [tuned(peer.name, jobs, device, variants=(variant,)).knobs for variant in (PadToMax, EagerPadToMax)]
    for knobs in dict.fromkeys(settings):
        if best is not None and time.monotonic() > one_setting_after:
            console.print(f"{peer.name}, {knobs.size} in {knobs.wait:g} s: left out, it is late")
            break
        with serving(peer, python, knobs, SCALE) as server:
            seen = asyncio.run(real_time.theirs(peer, server, jobs, knobs, SCALE))
        console.print(
            f"{peer.name}, {knobs.size} in {knobs.wait:g} s: P95 {seen.p95:.1f} s, overhead {seen.floor:.2f} s"
        )
        if best is None or seen.p95 < best[0].p95:
            best = seen, knobs
    assert best is not None
    seen, knobs = best
    return {
        f"real time, beside {peer.name}": Measure(
            ours.p95 / seen.p95, "ratio", "lower", bar=1.0, peer=f"P95, {knobs.size} in {knobs.wait:g} s"
        ),
        f"{peer.name}, overhead": Measure(seen.floor * SCALE * 1000, "ms", "lower", peer="an empty request, taken off"),
    }


def _jitter(clock: VirtualClock) -> dict[str, Measure]:
    late = [seconds * 1000 for seconds in clock.late]
    return {
        f"jitter, {name}": Measure(quantile_of(late, share), "ms", "lower", peer="a sleep's lateness")
        for name, share in (("median", 0.5), ("P99", 0.99))
    }


if __name__ == "__main__":
    sys.exit(main())
