"""The pools of a demo: those declared, with figures that show within a minute."""

from pathlib import Path

import yaml

from schemas.pools import Pools

# So short that sixty small pictures are worth more than one consumer; a minute would be one consumer's.
_WAIT_SECONDS = 5.0


def demo_pools(declared: Pools, price_usd_per_hour: float) -> Pools:
    """`price_usd_per_hour`: of pools that cost nothing, as the development pool does."""
    return Pools(
        pools={
            name: pool.model_copy(
                update={
                    "price_usd_per_hour": pool.price_usd_per_hour or price_usd_per_hour,
                    "scaling": pool.scaling.model_copy(update={"wait_seconds": _WAIT_SECONDS}),
                }
            )
            for name, pool in declared.pools.items()
        }
    )


def write_pools(pools: Pools, path: Path) -> None:
    """For the demo's services to read."""
    path.write_text(yaml.safe_dump(pools.model_dump(mode="json", exclude_none=True)))
