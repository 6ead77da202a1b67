"""Where the work goes: the config's pool, the request's lane, the partition that its config prefers.

Affinity, so that a GPU keeps what it has loaded: equal configs share a partition, found by rendezvous hashing
(Thaler and Ravishankar, 1998), so that another partition count moves as few configs as can be.
"""

from functools import lru_cache
from hashlib import blake2b

from admission.draft import Draft, Refusal, StageResult
from admission.state import State
from admission.world import World
from schemas.decision import Route


def route(draft: Draft, state: State, world: World) -> StageResult:
    """The pool's topic and the partition must be there: work that nobody can append would never be produced."""
    del state
    pool = draft.config.pool
    partition = preferred(draft.config.config_hash, draft.pool.partitions)
    seen = world.work_partitions.get(pool)
    if seen is None or partition >= seen:
        return Refusal(
            "pool_unavailable",
            f"pool {pool!r} has no partition {partition} to take work; try again under a new request id once the "
            f"operators have created its topics",
            "config",
        )
    draft.route = Route(pool=pool, lane=draft.request.priority, partition=partition)
    return None


@lru_cache(maxsize=4096)
def preferred(config_hash: str, partitions: int) -> int:
    """The partition with the highest score for `config_hash`."""
    return max(range(partitions), key=lambda partition: blake2b(f"{config_hash}/{partition}".encode()).digest())
