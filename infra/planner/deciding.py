"""Admission's decision, asked by a virtual pool: where a request goes."""

import math
from array import array
from collections import defaultdict
from collections.abc import Sequence

from admission.placement import Bounds, Unit, place
from admission.stages.route import way_of
from infra.planner.pool import PERIOD_SECONDS
from infra.planner.request import Request
from schemas.control import Placement

MEAN_SECONDS = 300.0  # of what is asked for, in a table of places: the default of admission


class PlacedRouter:
    """Admission's router, with a table made again every `period` from what was asked for lately."""

    def __init__(self, partitions: int, half_life: float = 600.0, period: float = PERIOD_SECONDS) -> None:
        self._partitions = partitions
        self._fades = math.exp2(-period / half_life)
        self._loads: dict[Unit, float] = defaultdict(float)
        self._table: Placement | None = None

    def partition(self, request: Request) -> int:
        config = request.config
        self._loads[Unit(config.model_key, config.config_hash)] += request.seconds
        return way_of(config, b"tenant/r%d" % request.number, self._partitions, self._table).partition

    def tick(self, now: float) -> None:
        del now
        self._table = place(self._loads, self._partitions, self._table, Bounds(), term=1)
        for unit in self._loads:
            self._loads[unit] *= self._fades


class Routed:
    """A router that has been asked before. It knows nothing of consumers, so it says the same to each scaler."""

    def __init__(self, places: Sequence[int]) -> None:
        """`places`: the partition of each request, by its number."""
        self._places = places

    @classmethod
    def of(cls, requests: Sequence[Request], partitions: int) -> "Routed":
        """`requests`: numbered from 0 on, in the order of arrival."""
        router = PlacedRouter(partitions, half_life=MEAN_SECONDS * math.log(2))
        places, tick_at = array("l"), PERIOD_SECONDS
        for request in requests:
            while request.arrival >= tick_at:
                router.tick(tick_at)
                tick_at += PERIOD_SECONDS
            places.append(router.partition(request))
        return cls(places)

    def partition(self, request: Request) -> int:
        return self._places[request.number]

    def tick(self, now: float) -> None: ...
