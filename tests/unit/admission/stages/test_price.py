"""What a picture costs: measured, or preset."""

from dataclasses import replace

import pytest

from admission.world import World
from tests.unit.admission.scene import Partition, accepted, make_world, request


def measured(seconds: float | None, *, pool: str = "default", factor: float = 10.0) -> World:
    world = make_world(price_factor_max=factor)
    sketch = world.configs.files["sketch"].versions[1]
    prices = {} if seconds is None else {(pool, sketch.config_hash): seconds}
    return replace(world, prices=prices)


@pytest.mark.parametrize(
    ("world", "price"),
    [
        (measured(None), 2.0),
        (measured(3.5), 3.5),
        (measured(3.5, pool="another"), 2.0),
        (measured(2000.0), 20.0),
        (measured(0.0), 0.2),
        (measured(3.5, factor=1.0), 2.0),
    ],
)
def test_measured_where_it_runs_else_preset_and_never_absurd(world: World, price: float) -> None:
    assert accepted(Partition(world).send(request())).price_gpu_seconds == price
    assert accepted(Partition(world).send(request(images=4))).price_gpu_seconds == 4 * price
