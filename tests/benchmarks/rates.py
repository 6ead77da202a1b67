"""How fast a service is: events a second of a burst, and seconds an event while they come evenly."""

import os
import statistics
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.load import Publisher, Watcher
from tests.fault.waiting import Deadline

_WAIT_SECONDS = 150.0


def cpu_seconds(pid: int) -> float:
    """What a process has used so far, its children not counted. Linux only; 0 elsewhere."""
    stat = Path(f"/proc/{pid}/stat")
    if not stat.exists():
        return 0.0
    fields = stat.read_text(encoding="utf-8").rsplit(")", 1)[1].split()  # its name may have spaces
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds from handing a request to the producer until the reader had its record."""

    p50: float
    p95: float
    p99: float


def burst(publisher: Publisher, watcher: Watcher, count: int, deadline: Deadline) -> float:
    """Events a second from the first request handed over until the last record read."""
    before = watcher.count
    started = publisher.burst(count)
    ended = watcher.wait(before + count, min(_WAIT_SECONDS, deadline.left))
    return count / (ended - started)


def drip(publisher: Publisher, watcher: Watcher, per_second: float, seconds: float, deadline: Deadline) -> Latency:
    """Latency while `per_second` requests come evenly for `seconds`."""
    before = watcher.count
    ids = publisher.drip(per_second, seconds)
    watcher.wait(before + len(ids), min(_WAIT_SECONDS, deadline.left))
    came = watcher.by_request(before)
    waited = [came[each][0] - publisher.published[each] for each in ids]
    cuts = statistics.quantiles(waited, n=100)
    return Latency(p50=statistics.median(waited), p95=cuts[94], p99=cuts[98])
