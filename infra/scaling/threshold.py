"""The threshold of lag: how much may wait at a replica. Pure."""

import math

from schemas.catalogue import ConfigCatalogue
from schemas.errors import CatalogueError
from schemas.pools import Pool

_ROUNDING = 1e-9  # 0.3 / 0.1 is a little less than 3


def lag_threshold(wait_seconds: float, item_seconds: float) -> int:
    """Jobs that a replica may have, in flight and waiting, so that the last waits no longer than `wait_seconds`; at
    least 1. `item_seconds`: of the GPU for one job."""
    return max(1, math.floor(wait_seconds / item_seconds + _ROUNDING))


def item_seconds_of(pool: Pool, pool_name: str, configs: ConfigCatalogue) -> float:
    """GPU-seconds of one job in this pool: what it declares, else the mean price of its configurations in use.

    Raises CatalogueError where it has none.
    """
    if pool.scaling.item_seconds is not None:
        return pool.scaling.item_seconds
    prices = [
        config.price.gpu_seconds
        for file in configs.files.values()
        for config in file.versions.values()
        if config.pool == pool_name and not config.retired
    ]
    if not prices:
        raise CatalogueError(
            f"pool {pool_name!r} has no configuration to take the seconds of a job from; set its scaling.item_seconds"
        )
    return sum(prices) / len(prices)
