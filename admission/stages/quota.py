"""Has the tenant tokens left? A request costs one."""

from admission.bucket import Taken, level, take
from admission.draft import Draft, Refusal, StageResult
from admission.state import State
from admission.world import World

COST = 1.0


def quota(draft: Draft, state: State, world: World) -> StageResult:
    """Charge the bucket at quota time. What was refused earlier costs nothing."""
    allowed = world.tenants.quota_of(draft.tenant)
    assert allowed is not None, "the tenant stage comes first"
    account = state.account(draft.tenant)
    taken: Taken = (
        take(allowed.burst, draft.clock_ms, allowed, draft.clock_ms, COST)
        if account is None
        else take(account.tokens, account.as_of_ms, allowed, draft.clock_ms, COST)
    )
    if not taken.granted:
        return Refusal(
            "rate_limited",
            f"tenant {draft.tenant!r} has {allowed.burst:g} requests at once and {allowed.per_second:g} a second; "
            f"send this again under a new request id in {taken.retry_after_seconds:g} s",
            retry_after_seconds=taken.retry_after_seconds,
        )
    draft.tokens_left = taken.tokens
    return None


def tokens_now(draft: Draft, state: State, world: World) -> float | None:
    """What is there for a request that is not charged; None for a tenant without a quota."""
    allowed = world.tenants.quota_of(draft.tenant)
    if allowed is None:
        return None
    account = state.account(draft.tenant)
    return allowed.burst if account is None else level(account.tokens, account.as_of_ms, allowed, draft.clock_ms)
