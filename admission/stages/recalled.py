"""Was it taken back before it was read? By a cancel of its own, or with everything of its tenant."""

from admission.draft import Cancellation, Draft
from admission.state import State
from admission.world import World
from schemas.stops import drop_of, in_words, of_tenant


def recalled(draft: Draft, state: State, world: World) -> Cancellation | None:
    """Before anything else of it is judged: whoever took it back need not hear what is wrong with it. A cancel or a
    drop reaches what was appended no later than itself."""
    del state
    cancelled_ms = world.cancelled.get(draft.name)
    if cancelled_ms is not None and draft.arrival.appended_ms <= cancelled_ms:
        return Cancellation()
    drop = drop_of(world.dropped, of_tenant(draft.tenant), draft.arrival.appended_ms) if world.dropped else None
    return None if drop is None else Cancellation(in_words(drop[0], "was dropped", drop[1].reason))
