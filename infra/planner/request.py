"""What is asked of a virtual pool."""

import math
from dataclasses import dataclass, field

from schemas.config import GenerationConfig
from schemas.request import Lane


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """Asked for at `arrival` seconds, to be done by `deadline`, of the same clock. `seconds`: of the GPU, in full
    batches, which is what prices are of."""

    number: int
    arrival: float
    config: GenerationConfig
    tenant: str = "tenant"
    lane: Lane = "standard"
    deadline: float = math.inf
    images: int = 1
    seconds: float = field(init=False)  # made once, for it is asked for at each look

    def __post_init__(self) -> None:
        object.__setattr__(self, "seconds", self.config.price.gpu_seconds * self.images)

    @property
    def run_seconds(self) -> float:
        """At one consumer that has nothing else to do, from its first slot to its last picture."""
        batches = math.ceil(self.images / self.config.bucket)
        return batches * self.config.bucket * self.config.price.gpu_seconds
