"""Replays of one trace beside each other, on all processors. One that cannot be the best of its way is given up."""

import math
import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Any

from infra.planner.deciding import Routed
from infra.planner.house import House
from infra.planner.replay import GivenUp, Outcome, Standing, replay, to_its_end
from infra.planner.request import Request
from infra.planner.ways import NAMES, Asked, Setting, Way, rules_of, scaler_of
from schemas.pools import Pool

_TOLD_SECONDS = 1.0  # between two words on how far they have come
_ROUNDING = 1e-9
_FINE = 100  # a fixed size is found to so small a part of it

Rank = tuple[float, float]  # deadlines missed beyond what is allowed, and GPU-seconds paid: the lower the better
Tell = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class Task:
    """What is replayed: the trace, the pool as declared, and what else is known of its consumers."""

    requests: Sequence[Request]
    pool: Pool
    house: House
    until: float

    def run(self, setting: Setting, goes_on: Callable[[Standing], bool], router: Routed) -> Outcome:
        rules, asked = rules_of(self.pool, setting.window), Asked(self.requests, self.until)
        scaler = scaler_of(setting.way, setting.amount, rules, self.pool, asked)
        return replay(self.requests, self.house, scaler, self.until, router=router, closes=True, goes_on=goes_on)


@dataclass(frozen=True, slots=True)
class Aim:
    """`allowed`: deadlines that may be missed. `spared_seconds`: of the GPU, what these cost at most."""

    allowed: int
    spared_seconds: float

    @classmethod
    def of(cls, requests: Sequence[Request], goal: float) -> "Aim":
        allowed = len(requests) - math.ceil(goal * len(requests) - _ROUNDING)
        dearest = sorted((request.seconds for request in requests), reverse=True)
        return cls(allowed, sum(dearest[:allowed]))

    def rank(self, outcome: Outcome) -> Rank:
        return max(0, outcome.missed - self.allowed), outcome.paid_seconds

    def rank_at_best(self, standing: Standing) -> Rank:
        """What stands so ends no better: all that has not ended is paid for, but for what may be missed."""
        if standing.missed > self.allowed:
            return standing.missed - self.allowed, 0.0
        left = max(0.0, standing.left_seconds - self.spared_seconds)
        return 0, (standing.paid_seconds + left) * (1 - _ROUNDING)


class _Racer:
    """In each process. What has been reached so far, and how far each has come, is known to all of them."""

    def __init__(self, task: Task, aim: Aim, router: Routed, ranks: Any, shares: Any) -> None:
        self._task = task
        self._aim = aim
        self._router = router
        self._ranks = ranks
        self._shares = shares

    def replayed(self, number: int, setting: Setting, *, always: bool, stands: bool) -> Outcome | None:
        """None: it was given up. `always`: it is not. `stands`: nor for what it misses, while nothing of its way is
        known to miss less."""

        def goes_on(standing: Standing) -> bool:
            self._shares[number] = standing.now / self._task.until
            hopes = stands or standing.missed <= self._aim.allowed
            return always or (hopes and self._aim.rank_at_best(standing) <= self._reached(setting.way))

        outcome = self._run(setting, goes_on)
        if outcome is not None:
            self._reach(setting.way, outcome)
        self._shares[number] = 1.0
        return outcome

    def _reached(self, way: Way) -> Rank:
        """The best so far: of the way, and for the oracle of any, since who knows what comes can do as they do."""
        return min(
            (self._ranks[2 * n], self._ranks[2 * n + 1]) for n, each in enumerate(NAMES) if way in (each, "oracle")
        )

    def _reach(self, way: Way, outcome: Outcome) -> None:
        place = 2 * list(NAMES).index(way)
        with self._ranks.get_lock():
            known = (self._ranks[place], self._ranks[place + 1])
            self._ranks[place : place + 2] = min(known, self._aim.rank(outcome))

    def smallest(self, number: int) -> tuple[Setting, Outcome]:
        """The least number of replicas, all the time, that reaches the goal, to a hundredth; else as many as there may
        be."""
        task, allowed = self._task, self._aim.allowed
        work = sum(request.seconds for request in task.requests) - self._aim.spared_seconds
        most = high = task.pool.replicas_max
        low = min(high, max(1, math.ceil(work / task.until)))
        steps, step = (high - low).bit_length() + 1, 0
        found: tuple[Setting, Outcome] | None = None

        def goes_on(standing: Standing) -> bool:
            self._shares[number] = min(1.0, (step + standing.now / task.until) / steps)
            return standing.missed <= allowed

        while low + high // _FINE < high:
            setting = Setting("fixed", (low + high) // 2)
            outcome = self._run(setting, goes_on)
            step += 1
            if outcome is not None and outcome.missed <= allowed:
                high, found = int(setting.amount), (setting, outcome)
            else:
                low = int(setting.amount) + 1
        if found is None:
            outcome = self._run(Setting("fixed", most), to_its_end)
            assert outcome is not None, "it is never given up"
            found = Setting("fixed", most), outcome
        self._reach("fixed", found[1])
        self._shares[number] = 1.0
        return found

    def _run(self, setting: Setting, goes_on: Callable[[Standing], bool]) -> Outcome | None:
        try:
            outcome = self._task.run(setting, goes_on, self._router)
        except GivenUp:
            return None
        return replace(outcome, waits=[])  # of each request, and no plan shows them


_racer: _Racer | None = None  # of a worker's process


def _begin(*parts: Any) -> None:
    global _racer  # noqa: PLW0603 - what a process is begun with has no other place
    _racer = _Racer(*parts)


def _replayed(number: int, setting: Setting, always: bool, stands: bool) -> Outcome | None:
    assert _racer is not None
    return _racer.replayed(number, setting, always=always, stands=stands)


def _smallest(number: int) -> tuple[Setting, Outcome]:
    assert _racer is not None
    return _racer.smallest(number)


def race(task: Task, settings: Sequence[Setting], aim: Aim, tell: Tell) -> dict[Setting, Outcome]:
    """Of the first setting, of the best of each way, and of a fixed size; of others where they were not given up. Where
    nothing of a way reaches the aim, the first of it, but for the first of all, stands for it.

    `tell` hears the share of all that is done, about each second. Blocks until then.
    """
    tell(0.0)
    router = Routed.of(task.requests, task.house.partitions)
    ranks = multiprocessing.Array("d", [math.inf] * 2 * len(NAMES))
    shares = multiprocessing.Array("d", len(settings) + 1)
    standing = {each.way: each for each in reversed(settings[1:])}  # the first of its way
    with ProcessPoolExecutor(initializer=_begin, initargs=(task, aim, router, ranks, shares)) as workers:
        try:
            searched = workers.submit(_smallest, len(settings))
            replays = [
                workers.submit(_replayed, number, each, number == 0, standing.get(each.way) == each)
                for number, each in enumerate(settings)
            ]
            pending: set[Future[Any]] = {searched, *replays}
            while pending := wait(pending, timeout=_TOLD_SECONDS).not_done:
                tell(sum(shares[:]) / len(shares))
        except BaseException:
            workers.shutdown(cancel_futures=True)
            raise
        ended = zip(settings, (each.result() for each in replays), strict=True)
        return {setting: outcome for setting, outcome in ended if outcome is not None} | dict([searched.result()])
