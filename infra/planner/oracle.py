"""The scaler that nobody can have: it knows what will come for as long as a replica takes to load."""

import math
from bisect import insort
from collections.abc import Sequence

from infra.planner.pool import Pool
from infra.planner.request import Request
from infra.planner.scalers import signal_of
from schemas.pools import Pool as Declared

STEP_SECONDS = 15.0
HEADROOMS = (1.0, 1.25, 1.5, 2.0, 3.0)  # to be tried


class Oracle:
    """Has what the deadlines of the work that will be there ask for, `headroom` times as much; and, as our signal has,
    what those of the work there is ask for: what was foreseen to be done by now and is not."""

    def __init__(self, requests: Sequence[Request], until: float, declared: Declared, headroom: float) -> None:
        self._needed = needed(requests, until, headroom)
        self._declared = declared

    def look(self, now: float, pool: Pool) -> float:
        first = round(now / STEP_SECONDS)
        last = first + math.ceil(pool.load_seconds / STEP_SECONDS)
        there = signal_of(now, pool, self._declared).replicas
        foreseen = max(self._needed[first : last + 1], default=0)
        size = min(self._declared.replicas_max, max(foreseen, there, 1 if pool.waiting else 0))
        if size != pool.size:
            pool.scale(size, now)
        return now + STEP_SECONDS


def needed(requests: Sequence[Request], until: float, headroom: float) -> list[int]:
    """Replicas at each step: with so many, and the earliest deadline first, what has come by then is done in time. It
    is the highest of work due by a moment over the time until then (Yao, Demers and Shenker, 1995), with headroom."""
    due: list[tuple[float, int, float]] = []  # deadline, number, GPU-seconds left
    coming, sizes, now = 0, [], 0.0
    while now < until:
        while coming < len(requests) and requests[coming].arrival <= now:
            request = requests[coming]
            insort(due, (request.deadline, request.number, request.seconds))
            coming += 1
        size, before = 0.0, 0.0
        for deadline, _, seconds in due:
            before += seconds
            size = max(size, before / max(deadline - seconds - now, STEP_SECONDS))
        sizes.append(math.ceil(size * headroom))
        _work(due, sizes[-1] * STEP_SECONDS)
        now += STEP_SECONDS
    return sizes


def _work(due: list[tuple[float, int, float]], seconds: float) -> None:
    while due and seconds > 0:
        deadline, number, left = due[0]
        if left > seconds:
            due[0] = (deadline, number, left - seconds)
            return
        seconds -= left
        del due[0]
