"""What a request costs in GPU-seconds: as measured where it will run, else by the preset of its config."""

from admission.draft import Draft, StageResult
from admission.state import State
from admission.world import World
from schemas.config import GenerationConfig


def price(draft: Draft, state: State, world: World) -> StageResult:
    """Final once the request is accepted: nothing measured later changes it."""
    del state
    draft.gpu_seconds = draft.request.images * gpu_seconds_of(draft.config, world)
    return None


def gpu_seconds_of(config: GenerationConfig, world: World) -> float:
    """Of one picture. A measure far from the preset is of something broken, or of something else: it counts as far as
    the factor of the settings allows, so that one bad card prices nobody out and gives nothing away."""
    preset = config.price.gpu_seconds
    measured = world.prices.get((config.pool, config.config_hash))
    if measured is None:
        return preset
    factor = world.limits.price_factor_max
    return min(max(measured, preset / factor), preset * factor)
