"""What is asked of a virtual pool."""

import math
from dataclasses import dataclass

from schemas.config import GenerationConfig
from schemas.request import Lane


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """Asked for at `arrival` seconds, to be done by `deadline`, of the same clock. `seconds`: of a GPU by itself."""

    number: int
    arrival: float
    config: GenerationConfig
    tenant: str = "tenant"
    lane: Lane = "standard"
    deadline: float = math.inf
    images: int = 1

    @property
    def seconds(self) -> float:
        return self.config.price.gpu_seconds * self.images
