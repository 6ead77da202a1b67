"""The placement controller: one for the deployment, in whoever owns requests[0].

It makes a table of what all partitions tell of their work: in a thread, since one of thousands takes most of a second
and heartbeats would wait. It says it in a transaction of requests[0]'s lease: a former owner that wakes up is fenced,
and its table is not seen.
"""

import asyncio
import math
from collections.abc import Callable, Collection, Mapping

from admission.placement import Bounds, Unit, place
from schemas.codec import encode
from schemas.control import Placement, control_key
from schemas.demand import Demand
from schemas.topics import Catalogue
from streams.kafka.sending import Output

# The partition of requests whose owner places: there is one in every deployment.
PLACED_BY = 0

# Configurations a table tells apart: a record of a MiB, and a tenth of a second for whoever reads it.
UNITS_MAX = 10_000


class Placing:
    """For one owner at a time. `demands` is what is believed of each requests partition's work."""

    def __init__(
        self,
        catalogue: Catalogue,
        demands: Callable[[], Mapping[int, Demand]],
        *,
        seconds: float,
        bounds: Bounds,
    ) -> None:
        self._catalogue = catalogue
        self._demands = demands
        self._seconds = seconds
        self._bounds = bounds
        self._looked_at = -math.inf

    async def news(self, now: float, known: Mapping[str, Placement]) -> list[Output]:
        """The tables that changed, once in `seconds`; a thread makes them. Nothing while a partition is silent: what
        it has would be moved for its silence. `known`: the tables as control has them; `now`: of a steady clock."""
        if now - self._looked_at < self._seconds:
            return []
        self._looked_at = now
        demands = self._demands()
        if len(demands) < self._catalogue.requests_partitions:
            return []
        return await asyncio.to_thread(self._tables, list(demands.values()), dict(known))

    def _tables(self, demands: Collection[Demand], known: Mapping[str, Placement]) -> list[Output]:
        return [
            Output(self._catalogue.control, 0, control_key("placement", pool), encode(table))
            for pool in self._catalogue.pools
            if (table := self._changed(pool, demands, known.get(pool))) is not None
        ]

    def _changed(self, pool: str, demands: Collection[Demand], known: Placement | None) -> Placement | None:
        loads = loads_of(pool, demands)
        if not loads:
            return None
        term = 0 if known is None else known.term + 1
        table = place(loads, self._catalogue.pools[pool].partitions, known, self._bounds, term=term)
        same = known is not None and (table.configs, table.partitions) == (known.configs, known.partitions)
        return None if same else table


def loads_of(pool: str, demands: Collection[Demand]) -> dict[Unit, float]:
    """GPU-seconds a second asked of a pool, by unit, of all partitions together. Beyond UNITS_MAX what is asked
    for the least is summed up by its model."""
    loads: dict[Unit, float] = {}
    for demand in demands:
        for told, rate in demand.rates.get(pool, {}).items():
            model, _, config_hash = told.partition("/")
            unit = Unit(model, config_hash)
            loads[unit] = loads.get(unit, 0.0) + rate
    for unit in sorted(loads, key=lambda unit: (-loads[unit], unit))[UNITS_MAX:]:
        rest = Unit(unit.model, "")
        loads[rest] = loads.pop(unit) + loads.get(rest, 0.0)
    return loads
