"""When the request is to be done: given, defaulted, capped; refused where it cannot be met."""

from admission.draft import Draft, Refusal, StageResult
from admission.estimate import wait_of
from admission.state import State
from admission.world import World


def deadline(draft: Draft, state: State, world: World) -> StageResult:
    """Feasible is what one picture can reach after the work that waits before it, with all GPUs that there may be:
    pictures of a request may share a batch, and scaling may still come."""
    wanted = draft.request.deadline
    if wanted is None:
        draft.deadline_ms = draft.now_ms + world.limits.default_deadline_seconds * 1000
        return None
    wanted_ms = int(wanted.timestamp() * 1000)
    if wanted_ms <= draft.now_ms:
        return Refusal("deadline_infeasible", "the deadline has passed; send a later one or none", "deadline")
    left_seconds = (wanted_ms - draft.now_ms) / 1000
    picture_seconds = draft.gpu_seconds / draft.request.images
    if left_seconds < picture_seconds:
        return Refusal(
            "deadline_infeasible",
            f"config {draft.config.label} takes {picture_seconds:g} s a picture; send a deadline further away",
            "deadline",
        )
    found = wait_of(draft, state, world)
    if left_seconds < found.soonest_seconds + picture_seconds:
        return Refusal(
            "deadline_infeasible",
            f"the deadline is {left_seconds:.0f} s away; a picture takes {picture_seconds:g} s and what waits before "
            f"it for pool {draft.config.pool!r} takes {found}; send a deadline further away, or none",
            "deadline",
        )
    draft.deadline_ms = min(wanted_ms, draft.now_ms + world.limits.deadline_seconds_max * 1000)
    return None
