"""How much goes into one transaction. Pure."""

from collections.abc import Iterable


def fitting(sizes: Iterable[int], most: int, bytes_max: int) -> int:
    """How many of the first go together, by their sizes in bytes: `most`, `bytes_max` in all, but one in any case."""
    count = total = 0
    for size in sizes:
        total += size
        if count == most or (count and total > bytes_max):
            break
        count += 1
    return count
