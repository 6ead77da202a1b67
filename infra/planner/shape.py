"""Arrivals of a shape: a week with its days, nights and bursts, or the same rate all the time. Drawn from a seed."""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from infra.planner.request import Request
from schemas.config import GenerationConfig
from schemas.request import Lane

WEEK_SECONDS = 7 * 86_400.0
# By the hour, of the busiest: people sleep, and ask most in the afternoon and once more in the evening. Made up.
_DAY = (0.30, 0.22, 0.17, 0.14, 0.13, 0.16, 0.25, 0.42, 0.62, 0.78, 0.86, 0.90,
        0.88, 0.90, 0.94, 0.97, 0.95, 0.90, 0.88, 0.92, 1.00, 0.90, 0.70, 0.46)  # fmt: skip
_DAYS = (0.95, 1.0, 1.0, 0.98, 0.9, 0.6, 0.65)  # from Monday on
_BURSTS_A_DAY = 16.0
_BURST_SECONDS = (180.0, 1200.0)  # until a burst has faded to a third
_BURST_HEIGHT = (0.5, 3.0)  # of the rate at that moment, in addition


@dataclass(frozen=True, slots=True)
class Kind:
    """A part of what is asked for, by `weight`. `deadline_seconds`: from the arrival on; `together`: so many come at
    once, as somebody's list does."""

    config: GenerationConfig
    weight: float
    lane: Lane = "standard"
    deadline_seconds: float = math.inf
    tenant: str = "tenant"
    together: int = 1


@dataclass(frozen=True, slots=True)
class Shape:
    """`rate` at a moment, over the mean of the whole."""

    seconds: float
    rates: Sequence[float]  # of equal parts of it

    def arrivals(self, kinds: Sequence[Kind], gpus: float, seed: int) -> Iterator[Request]:
        """For so many GPUs' work on the average, if they never idled and never swapped."""
        draw = random.Random(seed)  # noqa: S311 - a plan is no secret
        weights = [kind.weight / kind.together for kind in kinds]
        mean = sum(kind.weight * kind.config.price.gpu_seconds for kind in kinds) / sum(weights)
        part, rate, number = self.seconds / len(self.rates), gpus / mean, 0
        for place, height in enumerate(self.rates):
            now = place * part
            while height and (now := now + draw.expovariate(rate * height)) < (place + 1) * part:
                kind = draw.choices(kinds, weights)[0]
                for _ in range(kind.together):
                    yield Request(number, now, kind.config, kind.tenant, kind.lane, now + kind.deadline_seconds)
                    number += 1


def flat(seconds: float) -> Shape:
    return Shape(seconds, (1.0,))


def week(seed: int, speed: float = 1.0, *, part_seconds: float = 60.0) -> Shape:
    """`speed` times as quick as a week is, so that it is over sooner."""
    draw = random.Random(seed)  # noqa: S311 - a plan is no secret
    count = round(WEEK_SECONDS / part_seconds)
    rates = [_base((place + 0.5) * part_seconds) for place in range(count)]
    moment = 0.0
    while (moment := moment + draw.expovariate(_BURSTS_A_DAY / 86_400.0)) < WEEK_SECONDS:
        fades, height = draw.uniform(*_BURST_SECONDS), draw.uniform(*_BURST_HEIGHT) * _base(moment)
        first = int(moment / part_seconds)
        for place in range(first, min(count, first + math.ceil(5 * fades / part_seconds))):
            rates[place] += height * math.exp(-(place - first) * part_seconds / fades)
    mean = sum(rates) / count
    return Shape(WEEK_SECONDS / speed, [rate / mean for rate in rates])


def _base(seconds: float) -> float:
    day, hour = divmod(seconds / 3600, 24)
    before, share = int(hour), hour - int(hour)
    return _DAYS[int(day) % 7] * (_DAY[before] * (1 - share) + _DAY[(before + 1) % 24] * share)
