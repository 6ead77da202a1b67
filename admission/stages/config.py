"""The frozen configuration that the request names, and the pool that runs it."""

from admission.draft import Draft, Refusal, StageResult
from admission.state import State
from admission.world import World
from schemas.catalogue import ConfigProblem


def config(draft: Draft, state: State, world: World) -> StageResult:
    """Resolve the reference; what it allows and where it runs follow from it."""
    del state
    found = world.configs.resolve(draft.request.config, draft.name)
    if isinstance(found, ConfigProblem):
        return Refusal(found.code, found.message, "config")
    if draft.request.images > found.max_images:
        return Refusal(
            "invalid_request",
            f"{draft.request.images} images; config {found.label} allows at most {found.max_images}",
            "images",
        )
    pool = world.catalogue.pools.get(found.pool)
    if pool is None:
        return Refusal(
            "pool_unavailable", f"config {found.label} runs in pool {found.pool!r}, which is not declared", "config"
        )
    draft.config = found
    draft.pool = pool
    return None
