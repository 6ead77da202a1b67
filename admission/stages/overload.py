"""Does more wait than can be done in good time? Then a cheaper sibling where the request allows it, else not now.

There is no hysteresis: a request is judged by what waits at that moment, and what was decided stands.
"""

from copy import copy
from hashlib import blake2b

from admission.draft import Draft, Refusal, StageResult
from admission.estimate import Estimate, soonest_at_most, wait_of
from admission.settings import AdmissionLimits
from admission.stages.dimensions import dimensions
from admission.stages.dropped import dropped
from admission.stages.lane import lane
from admission.stages.memory import memory
from admission.stages.paused import paused
from admission.stages.policy import policy
from admission.stages.price import price
from admission.stages.tokens import tokens
from admission.state import State
from admission.world import World
from schemas.pools import Pool

# What a request has passed with its own config, and must pass with the sibling.
_JUDGED_AGAIN = (dropped, paused, dimensions, tokens, price, lane, memory, policy)

# Below the bound there is so much to do that who comes back a part of the bound late leaves no GPU idle.
_SPREAD = 0.25
_RETRY_SECONDS_MIN = 1.0


def overload(draft: Draft, state: State, world: World) -> StageResult:
    """Both bounds are held against the wait at full scale: a pool that is about to grow refuses nobody."""
    degrade_seconds, refuse_seconds = bounds(draft.pool, world.limits)
    least_seconds = min(degrade_seconds, refuse_seconds) if draft.request.may_degrade else refuse_seconds
    if soonest_at_most(draft.config.pool, state, world) <= least_seconds:
        return None
    found = wait_of(draft, state, world)
    if draft.request.may_degrade and found.soonest_seconds > degrade_seconds and _degrade(draft, state, world, found):
        found = wait_of(draft, state, world)
        _, refuse_seconds = bounds(draft.pool, world.limits)
    if found.soonest_seconds <= refuse_seconds:
        return None
    return Refusal(
        "overloaded",
        f"what waits for pool {draft.config.pool!r} takes {found}, and above {refuse_seconds:g} s nothing more enters; "
        f"send this again under a new request id after retry_after_seconds",
        retry_after_seconds=_retry_after(draft.name, found, refuse_seconds),
    )


def bounds(pool: Pool, limits: AdmissionLimits) -> tuple[float, float]:
    """Seconds of waiting above which requests are degraded, and refused."""
    degrade, refuse = pool.degrade_wait_seconds, pool.refuse_wait_seconds
    return (
        limits.degrade_wait_seconds if degrade is None else degrade,
        limits.refuse_wait_seconds if refuse is None else refuse,
    )


def _degrade(draft: Draft, state: State, world: World, found: Estimate) -> bool:
    """Give the draft its config's sibling, if there is one that costs less, may run, and waits no longer."""
    sibling = world.configs.sibling(draft.config)
    pool = None if sibling is None else world.catalogue.pools.get(sibling.pool)
    if sibling is None or pool is None or draft.request.images > sibling.max_images:
        return False
    other = copy(draft)
    other.config, other.pool = sibling, pool
    if any(stage(other, state, world) is not None for stage in _JUDGED_AGAIN):
        return False
    if other.gpu_seconds >= draft.gpu_seconds:
        return False
    if wait_of(other, state, world).soonest_seconds > found.soonest_seconds:
        return False
    draft.degraded_from = draft.config.label
    draft.config, draft.pool, draft.gpu_seconds, draft.overflows = sibling, pool, other.gpu_seconds, other.overflows
    return True


def _retry_after(name: bytes, found: Estimate, bound_seconds: float) -> float:
    """Until the pool is below the bound, if nothing more comes; by the name later, so that not all return at once."""
    spread = int.from_bytes(blake2b(name, digest_size=4).digest(), "big") / (1 << 32)
    soonest = found.soonest_seconds - bound_seconds
    return round(max(_RETRY_SECONDS_MIN, soonest) + spread * max(_RETRY_SECONDS_MIN, _SPREAD * bound_seconds), 1)
