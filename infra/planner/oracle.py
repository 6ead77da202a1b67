"""The scaler that nobody can have: it knows what will come for as long as a replica takes to load."""

import math
from bisect import insort
from collections.abc import Sequence

from infra.planner.pool import Pool
from infra.planner.request import Request
from infra.planner.scalers import signal_of
from schemas.pools import Pool as Declared

STEP_SECONDS = 15.0
HEADROOMS = (1.0, 1.1, 1.25, 1.5, 2.0)  # to be tried
# Times what is needed: work that is done sooner leaves room for what comes next, and costs no more. In replayed weeks
# it misses a quarter of what 1 does; 3 misses less again, and pays for more cold starts.
HASTE = 2.0
_GRAIN_SECONDS = 5.0  # so exactly are deadlines looked at


class Oracle:
    """Has what the deadlines of the work that will be there ask for, `headroom` times as much; and, as our signal has,
    what those of the work there is ask for: what was foreseen to be done by now and is not.

    It is no bound: it reckons with work that any replica can do, while a pool's falls to partitions and swaps models.
    """

    def __init__(self, requests: Sequence[Request], until: float, declared: Declared, headroom: float) -> None:
        self._needed = needed(requests, until, headroom, declared.replicas_max)
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


def needed(requests: Sequence[Request], until: float, headroom: float, most: int) -> list[int]:
    """Replicas at each step, `most` at most: with so many, and the earliest deadline first, what has come by then is
    done in time. It is the highest of work due by a moment over the time until then (Yao, Demers and Shenker, 1995),
    and HASTE times that is taken. Work takes `headroom` times its seconds. What `most` cannot do in time is given up
    when it is too late to begin."""
    due = _Due()
    coming, sizes, now = 0, [], 0.0
    while now < until:
        while coming < len(requests) and requests[coming].arrival <= now:
            due.add(requests[coming])
            coming += 1
        sizes.append(min(most, math.ceil(HASTE * headroom * due.rate(now))))
        due.work(sizes[-1] * STEP_SECONDS / headroom)
        now += STEP_SECONDS
        due.give_up(now)
    return sizes


class _Due:
    """GPU-seconds by the last moment to begin, of so many that are not told apart: a trace has more requests."""

    def __init__(self) -> None:
        self._moments: list[float] = []  # in order
        self._seconds: dict[float, float] = {}

    def add(self, request: Request) -> None:
        """What has no deadline is never due."""
        if math.isinf(request.deadline):
            return
        moment = (request.deadline - request.run_seconds) // _GRAIN_SECONDS * _GRAIN_SECONDS
        if moment not in self._seconds:
            insort(self._moments, moment)
            self._seconds[moment] = 0.0
        self._seconds[moment] += request.seconds

    def rate(self, now: float) -> float:
        """GPU-seconds a second."""
        rate = before = 0.0
        for moment in self._moments:
            before += self._seconds[moment]
            rate = max(rate, before / max(moment - now, STEP_SECONDS))
        return rate

    def work(self, seconds: float) -> None:
        while self._moments and seconds > 0:
            moment = self._moments[0]
            left = self._seconds[moment] - seconds
            if left > 0:
                self._seconds[moment] = left
                return
            seconds = -left
            self._forget(moment)

    def give_up(self, now: float) -> None:
        while self._moments and self._moments[0] + _GRAIN_SECONDS < now:
            self._forget(self._moments[0])

    def _forget(self, moment: float) -> None:
        self._moments.remove(moment)
        del self._seconds[moment]
