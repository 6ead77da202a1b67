"""When the request is to be done: given, defaulted, capped; refused where it cannot be met."""

from admission.draft import Draft, Refusal, StageResult
from admission.state import State
from admission.world import World


def deadline(draft: Draft, state: State, world: World) -> StageResult:
    """Feasible is what one picture can reach on an idle GPU: pictures of a request may share a batch."""
    del state
    wanted = draft.request.deadline
    if wanted is None:
        draft.deadline_ms = draft.now_ms + world.limits.default_deadline_seconds * 1000
        return None
    wanted_ms = int(wanted.timestamp() * 1000)
    if wanted_ms <= draft.now_ms:
        return Refusal("deadline_infeasible", "the deadline has passed; send a later one or none", "deadline")
    seconds = draft.config.price.gpu_seconds
    if wanted_ms - draft.now_ms < seconds * 1000:
        return Refusal(
            "deadline_infeasible",
            f"config {draft.config.label} takes {seconds:g} s a picture; send a deadline further away",
            "deadline",
        )
    draft.deadline_ms = min(wanted_ms, draft.now_ms + world.limits.deadline_seconds_max * 1000)
    return None
