"""Every one of the 200 sentences drawn in a churning batch and alone, for several seeds."""

from pathlib import Path

import pytest

from tests.integration.test_shapes_churn import COUNT, check, draw_both_ways, shapes, wishes

__all__ = ["shapes"]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [1, 2])
async def test_each_is_what_it_is_alone(shapes: Path, seed: int) -> None:
    asked = wishes(shapes, COUNT, seed)
    made, drawn = await draw_both_ways(shapes, asked, asked, seed)
    print(check(asked, made, drawn))
