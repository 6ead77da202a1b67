"""Which lane does the work wait in? The one it asks for, as long as its tenant has not too much in it already.

Lanes are read in the order of arrival, so fairness must be made before: what a tenant has outstanding beyond its share
waits in bulk, which the GPUs drain by its weight, and wholly when the other lanes are idle.
"""

from admission.draft import Draft, StageResult
from admission.state import State
from admission.world import World


def lane(draft: Draft, state: State, world: World) -> StageResult:
    """Refuses nothing. A request that alone is above the bound waits in its lane while nothing else of it does."""
    del world
    bound = draft.quota.outstanding_gpu_seconds
    if bound is not None:
        waiting = state.waiting.of_tenant(draft.tenant, draft.request.priority)
        draft.overflows = waiting > 0 and waiting + draft.gpu_seconds > bound
    return None
