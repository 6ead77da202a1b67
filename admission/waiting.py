"""How much of one partition's accepted work has not ended: GPU-seconds by pool and lane, and by tenant and lane."""

from collections import Counter
from collections.abc import Mapping
from typing import TypeVar

from schemas.tenancy import Outstanding

_Key = TypeVar("_Key")
_NOTHING: Mapping[str, int] = {}
_UNITS_A_SECOND = 1_000_000  # whole numbers, so that what was added is taken away to the last bit


class Waiting:
    """Sums, kept as jobs come and go. To add, remove and read one costs the same whatever waits."""

    def __init__(self) -> None:
        self._of_pools: dict[str, Counter[str]] = {}  # by lane
        self._of_tenants: Counter[tuple[str, str]] = Counter()

    def add(self, job: Outstanding) -> None:
        units = _units(job)
        lanes = self._of_pools.get(job.pool)
        if lanes is None:
            lanes = self._of_pools[job.pool] = Counter()
        lanes[job.lane] += units
        self._of_tenants[job.tenant, job.lane] += units

    def remove(self, job: Outstanding) -> None:
        """A job that was added. What has nothing left takes no room."""
        units = _units(job)
        lanes = self._of_pools[job.pool]
        _take(lanes, job.lane, units)
        if not lanes:
            del self._of_pools[job.pool]
        _take(self._of_tenants, (job.tenant, job.lane), units)

    def of_pool(self, pool: str) -> float:
        """GPU-seconds of all lanes of a pool."""
        lanes = self._of_pools.get(pool)
        return 0.0 if lanes is None else sum(lanes.values()) / _UNITS_A_SECOND

    def of_tenant(self, tenant: str, lane: str) -> float:
        """GPU-seconds of one tenant in a lane, of all pools."""
        return self._of_tenants.get((tenant, lane), 0) / _UNITS_A_SECOND

    def seconds(self, pool: str, lane: str) -> float:
        return self._of_pools.get(pool, _NOTHING).get(lane, 0) / _UNITS_A_SECOND

    def by_pool(self) -> dict[str, dict[str, float]]:
        """Pool to lane to GPU-seconds."""
        return {
            pool: {lane: units / _UNITS_A_SECOND for lane, units in sorted(lanes.items())}
            for pool, lanes in sorted(self._of_pools.items())
        }


def _take(sums: Counter[_Key], key: _Key, units: int) -> None:
    sums[key] -= units
    if not sums[key]:
        del sums[key]


def _units(job: Outstanding) -> int:
    return round(job.price_gpu_seconds * _UNITS_A_SECOND)
