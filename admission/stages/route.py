"""Where the work goes: the config's pool, and the partition that its placement or its hash prefers.

Affinity, so that a GPU keeps what it has loaded. The placement table says where a configuration's work goes; without a
word of it equal configs share a partition, found by rendezvous hashing (Thaler and Ravishankar, 1998), so that another
partition count moves as few configs as can be.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from admission.draft import Draft, Refusal, StageResult
from admission.state import State
from admission.world import World
from schemas.config import GenerationConfig
from schemas.control import Placement, Share
from schemas.decision import Route

_BITS = 52  # a half more than so many is still exact, and so never 1 once divided


class Way(NamedTuple):
    """A partition, and by what it was found."""

    partition: int
    by: str


def route(draft: Draft, state: State, world: World) -> StageResult:
    """The pool's topic and the partition must be there: work that nobody can append would never be produced."""
    del state
    pool = draft.config.pool
    seen = world.work_partitions.get(pool)
    if not seen:
        return _unavailable(pool, "no partition")
    way = way_of(draft.config, draft.name, draft.pool.partitions, world.placements.get(pool))
    if way.partition >= seen:
        return _unavailable(pool, f"no partition {way.partition}")
    draft.route = _route(pool, draft.lane, way.partition)
    return None


def way_of(config: GenerationConfig, name: bytes, partitions: int, placement: Placement | None) -> Way:
    """`name`: of the request; it decides only where one configuration's work is spread over several partitions.
    `partitions`: of the pool, as declared."""
    digest = config.config_hash
    if placement is not None and placement.partitions <= partitions:
        if shares := placement.configs.get(digest):
            if len(shares) == 1:
                return Way(shares[0].partition, "the configuration's place")
            return Way(_drawn(shares, name), "the configuration's places, by the request's name")
        if shares := placement.models.get(config.model_key):
            return Way(_drawn(shares, digest.encode()), "the model's places, by the configuration's hash")
    return Way(preferred(digest, partitions), "the configuration's hash")


@lru_cache(maxsize=4096)
def preferred(config_hash: str, partitions: int) -> int:
    """The partition with the highest score for `config_hash`."""
    return max(range(partitions), key=lambda partition: blake2b(f"{config_hash}/{partition}".encode()).digest())


@lru_cache(maxsize=4096)
def _route(pool: str, lane: str, partition: int) -> Route:
    """Of a few that there are; each request makes none of its own."""
    return Route(pool=pool, lane=lane, partition=partition)


def _drawn(shares: Sequence[Share], name: bytes) -> int:
    """Weighted rendezvous: each share gets its part of all names, and a change of one weight moves no others."""

    def score(share: Share) -> float:
        digest = blake2b(name + b"/%d" % share.partition, digest_size=8).digest()
        uniform = ((int.from_bytes(digest, "big") >> (64 - _BITS)) + 0.5) / (1 << _BITS)
        return -share.weight / math.log(uniform)

    return max(shares, key=score).partition


def _unavailable(pool: str, what: str) -> Refusal:
    return Refusal(
        "pool_unavailable",
        f"pool {pool!r} has {what} to take work; try again under a new request id once the operators have created its "
        "topics",
        "config",
    )
