"""Was its config or its pool dropped after it was sent?"""

from admission.draft import Cancellation, Draft
from admission.state import State
from admission.world import World
from schemas.stops import drop_of, in_words, of_config


def dropped(draft: Draft, state: State, world: World) -> Cancellation | None:
    """A tenant's drop is looked at before: this one needs to know the config."""
    del state
    drop = drop_of(world.dropped, of_config(draft.config), draft.arrival.appended_ms) if world.dropped else None
    return None if drop is None else Cancellation(in_words(drop[0], "was dropped", drop[1].reason))
