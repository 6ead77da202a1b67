"""The threshold of lag, from the objective and the seconds of a job."""

import pytest

from infra.scaling.threshold import item_seconds_of, lag_threshold
from schemas.catalogue import ConfigCatalogue
from schemas.config_file import ConfigFile
from schemas.errors import CatalogueError
from schemas.pools import Pool, Scaling


def configs(**seconds: float) -> ConfigCatalogue:
    return ConfigCatalogue(
        ConfigFile.model_validate(
            {
                "name": name,
                "versions": {
                    1: {
                        "family": "sd15",
                        "model": {"name": name, "digest": "sha256:" + "0" * 64},
                        "steps": 20,
                        "guidance_scale": 7,
                        "width": 64,
                        "height": 64,
                        "pool": "fast",
                        "price": {"gpu_seconds": price, "vram_bytes": 1},
                    }
                },
                "channels": {"stable": {1: 1.0}},
            }
        )
        for name, price in seconds.items()
    )


def pool(**scaling: float) -> Pool:
    return Pool(gpu_product="H200", vram_bytes=1, price_usd_per_hour=1, scaling=Scaling.model_validate(scaling))


@pytest.mark.parametrize(
    ("wait", "item", "threshold"), [(60, 6, 10), (60, 7, 8), (0.3, 0.1, 3), (10, 60, 1), (60, 60, 1), (119, 60, 1)]
)
def test_the_last_of_so_many_waits_no_longer(wait: float, item: float, threshold: int) -> None:
    assert lag_threshold(wait, item) == threshold


def test_the_seconds_of_a_job_are_declared_or_the_mean_of_the_pool() -> None:
    assert item_seconds_of(pool(item_seconds=3), "fast", configs()) == 3
    assert item_seconds_of(pool(), "fast", configs(a=2, b=4)) == 3


def test_a_pool_without_either_says_what_to_set() -> None:
    with pytest.raises(CatalogueError, match=r"'slow' has no configuration .* set its scaling.item_seconds"):
        item_seconds_of(pool(), "slow", configs(a=2))
