"""What a ScaledObject asks of the scaler, out of its trigger's metadata. Pure."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from schemas.pools import Pool

# Of KEDA's own: it hands the whole metadata on.
_KEDAS = frozenset({"scalerAddress", "enableTLS", "unsafeSsl", "caCert", "tlsClientCert", "tlsClientKey"})
_OURS = ("pool", "targetGpuSeconds", "activationGpuSeconds")
TARGET_MIN = 0.001
_MOST = 1e9


class WishRefused(Exception):
    """The metadata is wrong; the sentence says what to do."""


@dataclass(frozen=True, slots=True)
class Wish:
    """`target`: GPU-seconds a replica may have in front of it. `activation`: above it the pool is active."""

    pool: str
    target: float
    activation: float

    @property
    def metric(self) -> str:
        return f"gpu-seconds-{self.pool}"


def wish_of(metadata: Mapping[str, str], pools: Mapping[str, Pool]) -> Wish:
    """Raises WishRefused. What KEDA would pass over in silence, a misspelt key, is refused."""
    if unknown := sorted(metadata.keys() - _KEDAS - set(_OURS)):
        raise WishRefused(f"the trigger's metadata has {unknown[0]!r}; known are: {', '.join(_OURS)}")
    name = metadata.get("pool", "")
    pool = pools.get(name)
    if pool is None:
        known = ", ".join(sorted(pools))
        said = f"names the pool {name!r}, which is not declared" if name else "has no pool"
        raise WishRefused(f"the trigger's metadata {said}; set pool to one of: {known}")
    target = _seconds(metadata, "targetGpuSeconds", pool.scaling.wait_seconds, least=TARGET_MIN)
    return Wish(name, target, _seconds(metadata, "activationGpuSeconds", 0.0, least=0.0))


def _seconds(metadata: Mapping[str, str], key: str, default: float, *, least: float) -> float:
    """In whole thousandths, as KEDA hands it on: or a multiple of the target would be a little above itself."""
    text = metadata.get(key)
    try:
        seconds = default if text is None else float(text)
    except ValueError:
        seconds = math.nan
    if not least <= seconds <= _MOST:
        raise WishRefused(f"the trigger's {key} is {text!r}; set it to a number of seconds from {least:g} to {_MOST:g}")
    return math.floor(seconds * 1000 + 1e-6) / 1000
