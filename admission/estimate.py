"""How long a request would wait for its pool: what runs before it, in GPU-seconds, over the GPUs that do it. Pure.

Lanes share the GPUs by weight while all of them have work, so before the end of one lane's queue the others get what
their weights give them meanwhile, and no more than they have: the fluid limit of weighted fair queueing (Parekh and
Gallager, 1993).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from admission.draft import Draft
from admission.state import State
from admission.wait import NOTHING_TOLD
from admission.world import World
from schemas.request import Lane

NONE_THERE = "none runs now, and the start of the first comes on top"


@dataclass(frozen=True, slots=True)
class Estimate:
    """`gpus_max`: as many as scaling may bring."""

    ahead_gpu_seconds: float
    gpus: int | None
    gpus_max: int

    @property
    def now_seconds(self) -> float:
        """With the GPUs that are there; a pool that sleeps is woken by the first of its work."""
        return self.ahead_gpu_seconds / max(1, self.gpus or 0)

    @property
    def soonest_seconds(self) -> float:
        """With as many GPUs as there can be. Nothing is refused that these could do."""
        return self.ahead_gpu_seconds / self.full

    @property
    def full(self) -> int:
        return max(1, self.gpus or 0, self.gpus_max)

    def __str__(self) -> str:
        soonest = f"{self.soonest_seconds:.0f} s with {'its one GPU' if self.full == 1 else f'all {self.full} GPUs'}"
        if self.gpus is None or self.gpus == self.full:
            return soonest
        if self.gpus == 0:
            return f"{soonest} ({NONE_THERE})"
        return f"{soonest}, {self.now_seconds:.0f} s with the {self.gpus} there now"


def wait_of(draft: Draft, state: State, world: World) -> Estimate:
    """Of a request whose config is known."""
    return estimate(draft.config.pool, draft.lane, state, world)


def estimate(pool: str, lane: Lane, state: State, world: World) -> Estimate:
    """Of a request that joins `lane` of `pool` as the last one. What this partition has is counted as it is now, of the
    others what they told last."""
    wait = world.waits.get(pool, NOTHING_TOLD)
    backlog = wait.besides(state.partition)
    weights = world.limits.lane_weights
    for each in weights:
        backlog[each] = backlog.get(each, 0.0) + state.waiting.seconds(pool, each)
    return Estimate(ahead(backlog, lane, weights), wait.gpus, world.catalogue.pools[pool].replicas_max)


def soonest_at_most(pool: str, state: State, world: World) -> float:
    """Of any lane: what an estimate's soonest_seconds cannot be above. Where little waits, this is all that one needs
    to know, and it takes a fifth of the time."""
    wait = world.waits.get(pool, NOTHING_TOLD)
    waiting = state.waiting.of_pool(pool)
    for seconds in wait.backlog.values():
        waiting += seconds
    return waiting / max(1, wait.gpus or 0, world.catalogue.pools[pool].replicas_max)


def ahead(backlog: Mapping[str, float], lane: Lane, weights: Mapping[Lane, float]) -> float:
    """GPU-seconds that are done until the last of `lane` has been. At least its own, at most all."""
    own = backlog.get(lane, 0.0)
    if not own:
        return 0.0
    return sum(min(backlog.get(other, 0.0), own * weight / weights[lane]) for other, weight in weights.items())
