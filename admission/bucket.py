"""A token bucket, pure: `burst` tokens at most, `per_second` more each second of quota time.

Never below zero, never above `burst`, never back in time: over any span of T seconds it grants at most
burst + per_second * T, whatever the clock does.
"""

import math
from dataclasses import dataclass

from schemas.tenants import Quota


@dataclass(frozen=True, slots=True)
class Taken:
    """`tokens` are left at `as_of_ms`. Refused, `retry_after_seconds` says when the cost will be there."""

    granted: bool
    tokens: float
    as_of_ms: int
    retry_after_seconds: float | None = None


def level(tokens: float, as_of_ms: int, quota: Quota, now_ms: int) -> float:
    """The tokens at `now_ms`; a clock that went back adds none and takes none."""
    elapsed_seconds = max(0, now_ms - as_of_ms) / 1000
    return min(quota.burst, max(0.0, tokens) + elapsed_seconds * quota.per_second)


def take(tokens: float, as_of_ms: int, quota: Quota, now_ms: int, cost: float) -> Taken:
    """Take `cost` tokens if they are there. `cost` is at most the burst, or it would never be granted."""
    assert 0 < cost <= quota.burst
    there = level(tokens, as_of_ms, quota, now_ms)
    as_of_ms = max(as_of_ms, now_ms)
    if there >= cost:
        return Taken(granted=True, tokens=there - cost, as_of_ms=as_of_ms)
    wait_ms = math.ceil((cost - there) / quota.per_second * 1000)
    if level(there, 0, quota, wait_ms) < cost:  # rounding left it a hair short
        wait_ms += 1
    return Taken(granted=False, tokens=there, as_of_ms=as_of_ms, retry_after_seconds=wait_ms / 1000)
