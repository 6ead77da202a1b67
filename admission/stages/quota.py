"""Have the tenant, and the key of it that asks, enough left? A request costs one, and its price in GPU-seconds."""

from admission.accounts import Booking
from admission.draft import Draft, Refusal, StageResult
from admission.meters import Levels, Short, at, charged, charged_one, renewed_ms, shortages
from admission.state import State
from admission.world import World
from schemas.tenancy import key_of
from schemas.tenants import KeyQuota, Quota

_UNBOUND = KeyQuota(per_second=1e6, burst=1e9)  # of a key without a quota of its own: its tenant's meters bound it


def quota(draft: Draft, state: State, world: World) -> StageResult:
    """Charge every meter of the tenant and of its key at quota time, or none. What is refused costs nothing."""
    price = draft.gpu_seconds
    short: list[tuple[str, Short]] = []
    bookings: list[Booking] = []
    for name, declared, listed in _holders(draft, draft.quota, world):
        kept = _kept(name, state)
        left = charged_one(kept, declared, draft.clock_ms)
        if left is None:
            levels = at(kept, declared, draft.clock_ms, draft.number)
            short += [(name, each) for each in shortages(levels, declared, price)]
            left = levels if short else charged(levels, price)
        if not short:
            bookings.append(_booking(name, left, declared, world, listed=listed))
    if short:
        return _refusal(draft, short)
    draft.bookings = tuple(bookings)
    return None


def uncharged(draft: Draft, state: State, world: World) -> tuple[Booking, ...]:
    """The same accounts as they stand, for a request that is not charged. None for a tenant without a quota: strangers
    must not fill the memory; and none for a key that is not listed and never was let in, for the same reason."""
    allowed = world.tenants.quota_of(draft.tenant)  # the tenant stage may not have been reached
    if allowed is None:
        return ()
    return tuple(
        _booking(name, at(_kept(name, state), declared, draft.clock_ms, draft.number), declared, world, listed=listed)
        for name, declared, listed in _holders(draft, allowed, world)
        if listed or name == draft.tenant or state.account(name) is not None
    )


def _holders(draft: Draft, allowed: Quota, world: World) -> list[tuple[str, KeyQuota, bool]]:
    """Whose meters count: name, quota, and whether it is listed, so that the account stays."""
    listed = draft.tenant in world.tenants.tenants
    holders: list[tuple[str, KeyQuota, bool]] = [(draft.tenant, allowed, listed)]
    if draft.key is not None:
        own = allowed.keys.get(draft.key)
        declared = own or allowed.default_key or _UNBOUND
        holders.append((key_of(draft.tenant, draft.key), declared, listed and own is not None))
    return holders


def _kept(name: str, state: State) -> Levels | None:
    account = state.account(name)
    return None if account is None else account.levels


def _booking(name: str, levels: Levels, declared: KeyQuota, world: World, *, listed: bool) -> Booking:
    if listed:
        return Booking(name, levels)
    idle_ms = levels.as_of_ms + world.limits.account_idle_ms
    return Booking(name, levels, max(idle_ms, renewed_ms(levels, declared)))


def _refusal(draft: Draft, short: list[tuple[str, Short]]) -> Refusal:
    """It names the meter that keeps the request out the longest; all have enough again when that one has."""
    name, tightest = max(short, key=lambda pair: float("inf") if pair[1].wait_ms is None else pair[1].wait_ms)
    whose = f"tenant {draft.tenant!r}" if name == draft.tenant else f"key {draft.key!r} of tenant {draft.tenant!r}"
    if tightest.wait_ms is None:
        return Refusal(
            "rate_limited",
            f"{whose} has {tightest.allows} and this request costs {draft.gpu_seconds:g}, so it never passes; "
            f"ask for fewer images or a cheaper config under a new request id",
            "images" if draft.request.images > 1 else "config",
        )
    seconds = tightest.wait_ms / 1000
    return Refusal(
        "rate_limited",
        f"{whose} has {tightest.allows}; send this again under a new request id in {seconds:g} s",
        retry_after_seconds=seconds,
    )
