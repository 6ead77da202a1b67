"""What the owner of a requests partition tells of its work: how much waits, and how much comes. Pure.

`now` is passed in, in seconds of one steady clock.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from admission.state import State
from admission.wait import Wait
from schemas.config import GenerationConfig
from schemas.demand import Demand

Rates = Mapping[str, Mapping[str, float]]  # pool -> unit -> GPU-seconds a second

_ELAPSED_MIN = 0.1  # of the mean's time: what came in a shorter one says little about a rate
_NOTHING = 1e-6  # GPU-seconds a second: a picture of a second every two weeks
_CHANGED = 0.05  # of what waits: a change that is worth telling at once
_DIGITS = 4


def unit_of(config: GenerationConfig) -> str:
    """What a rate is of: a configuration of a model."""
    return f"{config.model_key}/{config.config_hash}"


@dataclass(slots=True)
class _Mean:
    seconds: float
    at: float


class RateMeter:
    """GPU-seconds accepted a second, of each unit of each pool: a mean whose weights fall by e every `mean_seconds`.

    `before`: what a former owner of the partition had told `age_seconds` ago; it is believed as our own.
    """

    def __init__(self, mean_seconds: float, now: float, before: Rates | None = None, *, age_seconds: float = 0) -> None:
        self._mean_seconds = mean_seconds
        self._began = -math.inf if before else now
        self._means = {
            (pool, unit): _Mean(rate * mean_seconds, now - age_seconds)
            for pool, rates in (before or {}).items()
            for unit, rate in rates.items()
        }

    def add(self, pool: str, unit: str, gpu_seconds: float, now: float) -> None:
        mean = self._means.setdefault((pool, unit), _Mean(0.0, now))
        mean.seconds = mean.seconds * self._left(now - mean.at) + gpu_seconds
        mean.at = now

    def rates(self, now: float, units_max: int) -> dict[str, dict[str, float]]:
        """The `units_max` highest, each; of the others one sum a model, under its key twice. Forgets what is almost
        nothing."""
        weight = self._mean_seconds * (1 - self._left(max(now - self._began, _ELAPSED_MIN * self._mean_seconds)))
        found = {}
        for key, mean in list(self._means.items()):
            rate = mean.seconds * self._left(now - mean.at) / weight
            if rate < _NOTHING:
                del self._means[key]
            else:
                found[key] = rate
        told: dict[str, dict[str, float]] = {}
        for number, (pool, unit) in enumerate(sorted(found, key=lambda key: (-found[key], key))):
            name = unit if number < units_max else "/".join(2 * [unit.partition("/")[0]])  # no hash is a model's key
            of_pool = told.setdefault(pool, {})
            of_pool[name] = of_pool.get(name, 0.0) + found[pool, unit]
        return {pool: {unit: rounded(rate) for unit, rate in rates.items()} for pool, rates in told.items()}

    def _left(self, elapsed_seconds: float) -> float:
        return math.exp(-max(0.0, elapsed_seconds) / self._mean_seconds)


@dataclass(slots=True)
class Teller:
    """One partition under one lease, and what was told of it last."""

    state: State
    rates: RateMeter
    units_max: int
    _last: Demand | None = field(default=None, init=False)
    _told_at: float = field(default=-math.inf, init=False)

    def accepted(self, config: GenerationConfig, gpu_seconds: float, now: float) -> None:
        self.rates.add(config.pool, unit_of(config), gpu_seconds, now)

    def news(self, now: float, at: datetime, repeat_seconds: float) -> Demand | None:
        """What is to be told now; None where what was told still holds and is not older than `repeat_seconds`."""
        waiting = {
            pool: {lane: rounded(seconds) for lane, seconds in lanes.items()}
            for pool, lanes in self.state.waiting.by_pool().items()
            if pool
        }
        if self._last is not None and now - self._told_at < repeat_seconds and alike(self._last.waiting, waiting):
            return None
        rates = self.rates.rates(now, self.units_max)
        return Demand(partition=self.state.partition, waiting=waiting, rates=rates, at=at)

    def told(self, demand: Demand, now: float) -> None:
        """The broker has it."""
        self._last, self._told_at = demand, now


def alike(told: Rates, now: Rates) -> bool:
    """Whether no sum differs by more than a few hundredths."""
    if told.keys() != now.keys():
        return False
    return all(
        told[pool].keys() == lanes.keys()
        and all(math.isclose(told[pool][lane], seconds, rel_tol=_CHANGED) for lane, seconds in lanes.items())
        for pool, lanes in now.items()
    )


def rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def waits_of(demands: Collection[Demand], pools: Collection[str], gpus: Mapping[str, int]) -> dict[str, Wait]:
    """What all partitions together told of each pool."""
    return {pool: _wait(demands, pool, gpus.get(pool)) for pool in pools}


def _wait(demands: Collection[Demand], pool: str, gpus: int | None) -> Wait:
    backlog: dict[str, float] = {}
    told = {}
    for demand in demands:
        if lanes := demand.waiting.get(pool):
            told[demand.partition] = lanes
            for lane, seconds in lanes.items():
                backlog[lane] = backlog.get(lane, 0.0) + seconds
    return Wait(backlog, told, gpus)
