"""What a pool has to do in GPU-seconds, and how many replicas that asks for. Pure; times are seconds of one wall clock.

Two answers to one question, and the higher counts:

- the share: a replica may have `target` GPU-seconds in front of it, so that the last of it waits no longer. A job that
  is longer than the target asks for one replica and not for more: a second one could not help it.
- the deadlines: the fewest replicas with which every deadline that can be met is met (`replicas_in_time`).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from schemas.pools import Pool

EXPIRED_SECONDS = 0.01  # a job that nobody draws any more; somebody has to say so
_ROUNDING = 1e-9  # 0.3 / 0.1 is a little less than 3
# Replayed weeks (`make bench-autoscale`) miss deadlines without: models are swapped, and partitions are not quite even.
HEADROOM = 1.25
ASKING_SECONDS = 30.0  # the autoscaler looks every 15 s, and a group shares its partitions out anew when one joins


@dataclass(frozen=True, slots=True)
class Job:
    """`deadline` is inf where it is not known."""

    seconds: float
    deadline: float = math.inf


@dataclass(frozen=True, slots=True)
class Fleet:
    """`ready`: consumers that take work now. `load_seconds`: until one that is asked for now does. `headroom`: so many
    times its GPU-seconds does work take, if there are replicas for that."""

    ready: int
    load_seconds: float
    replicas_max: int
    headroom: float = 1.0

    @classmethod
    def of(cls, pool: Pool, ready: int) -> "Fleet":
        """As it is to be counted on."""
        return cls(ready, pool.load_seconds + ASKING_SECONDS, pool.replicas_max, HEADROOM)


@dataclass(frozen=True, slots=True)
class Signal:
    """`waiting` by lane and `running` are GPU-seconds left to do; `pieces` are those of each job, `alike` jobs of
    `alike_seconds` each beside them. `replicas`: as many as the deadlines need, whatever the target."""

    waiting: Mapping[str, float] = field(default_factory=dict)
    running: float = 0.0
    pieces: Sequence[float] = ()
    alike: int = 0
    alike_seconds: float = 0.0
    replicas: int = 0

    @property
    def seconds(self) -> float:
        """All that is left to do. Above 0 where anything is."""
        return sum(self.waiting.values()) + self.running

    def active(self, activation: float) -> bool:
        """Whether there is something to do: above, not at, as KEDA compares."""
        return self.seconds > activation

    def value(self, target: float) -> float:
        """What KEDA's HPA divides by `target`: replicas = ceil(value / target). 0 only where nothing is to do."""
        share = sum(min(piece, target) for piece in self.pieces) + self.alike * min(self.alike_seconds, target)
        if self.replicas > math.ceil(share / target - _ROUNDING):
            return self.replicas * target
        return share


def replicas_in_time(jobs: Iterable[Job], running: Sequence[float], fleet: Fleet, now: float) -> int:
    """The fewest replicas that are known to meet every deadline which `fleet.replicas_max` are known to meet; 0 where
    none is to be met. `running`: GPU-seconds left of each job that runs.

    Replicas serve the earliest deadline first, after what runs. `ready` of them work from now on, others from
    `load_seconds` on, so n replicas have given

        C(n, t) = min(n, ready) t + max(0, n - ready) max(0, t - load_seconds)

    GPU-seconds by t. Until a job has begun no replica idles (Graham, 1966), so one with B GPU-seconds before it has
    begun by t if C(n, t) >= B; and one with fewer than n jobs before it begins as soon as n replicas are there. It is
    in time if that t is its deadline less its own seconds. What no number of replicas brings in time asks for none,
    and is not before anything else: it ends at its deadline.
    """
    dated = sorted((job for job in jobs if math.isfinite(job.deadline)), key=lambda job: job.deadline)
    headroom = fleet.headroom
    left = sum(job.seconds for job in dated) * headroom
    longest = max((job.seconds for job in dated), default=0.0)
    before, jobs_before, most = sum(running) * headroom, len(running), 0
    for job in dated:
        if most and _capacity(most, job.deadline - longest - now, fleet) >= before + left:
            break  # nor does any later one need more
        left -= job.seconds * headroom
        slack = job.deadline - job.seconds - now
        needed = _fewest(before, jobs_before, slack, fleet) or _fewest(before / headroom, jobs_before, slack, fleet)
        if needed is not None:
            most = max(most, needed)
            before += job.seconds * headroom
            jobs_before += 1
    return most


def _fewest(before: float, jobs_before: int, slack: float, fleet: Fleet) -> int | None:
    ways = _by_work(before, slack, fleet), _by_number(jobs_before, slack, fleet)
    return min((each for each in ways if each is not None and each <= fleet.replicas_max), default=None)


def _capacity(replicas: int, seconds: float, fleet: Fleet) -> float:
    late = max(0, replicas - fleet.ready) * (seconds - fleet.load_seconds)
    return min(replicas, fleet.ready) * max(0.0, seconds) + max(0.0, late)


def _by_number(jobs_before: int, slack: float, fleet: Fleet) -> int | None:
    """One for each job. None: it would be late even so."""
    begins = 0.0 if jobs_before < fleet.ready else fleet.load_seconds
    return jobs_before + 1 if slack >= begins else None


def _by_work(before: float, slack: float, fleet: Fleet) -> int | None:
    """The fewest by which `before` is done within `slack`. None: no number is known to do it."""
    there = min(fleet.ready, fleet.replicas_max)
    if slack > 0 and there and before <= there * slack + _ROUNDING:
        return max(1, math.ceil(before / slack - _ROUNDING))
    if slack <= fleet.load_seconds or not before:
        return None
    return there + math.ceil((before - there * slack) / (slack - fleet.load_seconds) - _ROUNDING)
