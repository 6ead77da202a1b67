"""What goes into one transaction."""

import pytest

from streams.fitting import fitting


@pytest.mark.parametrize(
    ("sizes", "most", "bytes_max", "count"),
    [
        ([], 3, 10, 0),
        ([4, 4, 4], 5, 8, 2),
        ([4, 4, 4], 1, 8, 1),
        ([20, 1], 5, 8, 1),  # in any case
        ([0, 0, 20], 5, 8, 2),
    ],
)
def test_so_many_of_the_first_go_together(sizes: list[int], most: int, bytes_max: int, count: int) -> None:
    assert fitting(sizes, most, bytes_max) == count
