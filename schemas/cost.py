"""Money. The one rule by which GPU-seconds become dollars, for results, quotes and bills alike.

An amount is computed in decimal from the shortest decimal that a float is, and rounded to a millionth of a dollar, half
to even. Each request is rounded by itself and sums are sums of rounded amounts: a bill is what its lines add up to.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal
from math import isfinite

_HOUR_SECONDS = 3600
_MILLIONTH = Decimal("0.000001")
_CONTEXT = Context(prec=50, rounding=ROUND_HALF_EVEN)  # exact for any product of two floats that a bill may hold


@dataclass(frozen=True, slots=True)
class Price:
    """Of a pool: what a GPU of it costs while it is held, whether it draws or not."""

    pool: str
    usd_per_hour: float

    def of(self, gpu_seconds: float) -> Decimal:
        return cost_usd(gpu_seconds, self.usd_per_hour)


def cost_usd(gpu_seconds: float, price_usd_per_hour: float) -> Decimal:
    """Dollars, to a millionth. Nothing for seconds that are below 0 or no number: whoever wrote those used nothing."""
    if not isfinite(gpu_seconds) or gpu_seconds <= 0:
        return Decimal(0).quantize(_MILLIONTH)
    exact = _CONTEXT.multiply(Decimal(repr(gpu_seconds)), Decimal(repr(price_usd_per_hour)))
    return rounded(_CONTEXT.divide(exact, Decimal(_HOUR_SECONDS)))


def rounded(usd: Decimal) -> Decimal:
    """To a millionth of a dollar, half to even."""
    return usd.quantize(_MILLIONTH, context=_CONTEXT)


def total_usd(amounts: Iterable[float]) -> Decimal:
    """The sum of amounts that are rounded already, as results carry them; free of the error that floats would add."""
    return sum((rounded(Decimal(repr(each))) for each in amounts if isfinite(each)), Decimal(0).quantize(_MILLIONTH))
