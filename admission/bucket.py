"""A token bucket, pure: `burst` tokens at most, `per_second` more each second of quota time.

Never below zero, never above `burst`, never back in time: over any span of T seconds it grants at most
burst + per_second * T, whatever the clock does.
"""

import math

from schemas.tenants import Rate

FOREVER_MS = 10**15  # some 30,000 years: a rate may be so small that its wait is no number


def level(tokens: float, as_of_ms: int, rate: Rate, now_ms: int) -> float:
    """The tokens at `now_ms`; a clock that went back adds none and takes none."""
    filled = tokens if tokens > 0.0 else 0.0
    if now_ms > as_of_ms:
        filled += (now_ms - as_of_ms) / 1000 * rate.per_second
    return filled if filled < rate.burst else rate.burst


def wait_ms(tokens: float, rate: Rate, cost: float) -> int:
    """How long until `cost` tokens are there; 0 where they are. `cost` is at most the burst, or they never would be."""
    assert cost <= rate.burst
    if tokens >= cost:
        return 0
    wait = math.ceil(min((cost - tokens) / rate.per_second * 1000, FOREVER_MS))
    return wait + 1 if level(tokens, 0, rate, wait) < cost else wait  # rounding left it a hair short
