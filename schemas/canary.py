"""Versions with weights, and which of them a request gets: always the same, and few get another when weights move."""

import hashlib
import math
from collections.abc import Sequence
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field

Weight = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]


def _alone(value: Any) -> Any:
    return {value: 1.0} if isinstance(value, int | str) and not isinstance(value, bool) else value


def _some(weights: dict[int, float]) -> dict[int, float]:
    if not any(weights.values()):
        raise ValueError("no version has a weight above 0; give one of them more")
    return weights


# A version alone, or versions with weights, which need not add up to anything. 0: none of them, for now.
Weights: TypeAlias = Annotated[
    dict[Annotated[int, Field(ge=1)], Weight], BeforeValidator(_alone), AfterValidator(_some)
]


def drawn(choices: Sequence[tuple[str, float]], name: bytes) -> int:
    """The place in `choices`, (label, weight above 0), that the request of this name gets.

    Weighted rendezvous hashing: who gets a label is its weight's share, and does not depend on the others but by that
    share. A weight that grows draws requests to its label, and moves none between the others.
    """
    return min(range(len(choices)), key=lambda place: _wait(*choices[place], name))


def _wait(label: str, weight: float, name: bytes) -> float:
    """Until the label comes up, at the rate of its weight: of such times, each is the least with its weight's share."""
    bits = int.from_bytes(hashlib.sha256(label.encode() + b"\0" + name).digest()[:8], "big") >> 11
    return -math.log((bits + 0.5) / (1 << 53)) / weight
