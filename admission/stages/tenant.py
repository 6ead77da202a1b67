"""Is the tenant known?"""

from admission.draft import Draft, Refusal, StageResult
from admission.state import State
from admission.world import World


def tenant(draft: Draft, state: State, world: World) -> StageResult:
    """A tenant is known when it has a quota, its own or the default one."""
    del state
    quota = world.tenants.quota_of(draft.tenant)
    if quota is None:
        return Refusal("unknown_tenant", f"there is no tenant {draft.tenant!r}; ask the operators to add it", "tenant")
    draft.quota = quota
    return None
