"""Can any GPU of the pool hold it? What cannot fit is refused at the door."""

from admission.draft import Draft, Refusal, StageResult
from admission.state import State
from admission.world import World


def memory(draft: Draft, state: State, world: World) -> StageResult:
    """Against the whole card: what is free on it is the GPU consumer's to judge."""
    del state, world
    needed, there = draft.config.price.vram_bytes, draft.pool.vram_bytes
    if needed > there:
        return Refusal(
            "exceeds_vram",
            f"config {draft.config.label} needs {needed >> 20} MiB of GPU memory and pool {draft.config.pool!r} "
            f"has {there >> 20} MiB; choose a smaller config",
            "config",
        )
    return None
