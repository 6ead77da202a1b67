"""Is the request its tenant's? One that is not becomes no event under that name, and takes no request id."""

from admission.arrival import Arrival
from admission.stages.limits import envelope
from admission.world import World
from schemas.signature import HEADER_SIGNATURE, Signature, parse_signature


def unproven(arrival: Arrival, tenant: str, world: World, clock_ms: int) -> str | None:
    """Why `arrival` cannot be believed to be `tenant`'s, in a sentence. None: it can, or this tenant need not sign.

    A tenant that need not and does is held to it where its keys are known. The time that was signed is held against
    quota time, which never goes back, on both sides and by less than half of the window of names: so whoever sends the
    record again meets its name, or comes too late.
    """
    allowed = world.tenants.quota_of(tenant)
    must = allowed is not None and allowed.signed
    if not must and not arrival.headers:
        return None
    said = [value or b"" for name, value in arrival.headers if name == HEADER_SIGNATURE]
    if not must and not (said and world.secrets.get(tenant)):
        return None
    if len(said) != 1:
        return f"tenant {tenant!r} must sign and the record has {len(said)} headers {HEADER_SIGNATURE}; send one"
    signature = parse_signature(said[0])
    if signature is None:
        return f"the header {HEADER_SIGNATURE} has another form; send: v1 <key id> <Unix milliseconds> <64 hex digits>"
    outside = envelope(arrival, tenant, world.limits) if must else None
    return (
        _foreign(signature, arrival, tenant, world)
        or _out_of_time(signature, arrival, world, clock_ms)
        or (None if outside is None else f"{outside.message}; a signature says nothing of it: it may be a stranger's")
    )


def _foreign(signature: Signature, arrival: Arrival, tenant: str, world: World) -> str | None:
    secret = world.secrets.get(tenant, {}).get(signature.key_id)
    if secret is None:
        return f"tenant {tenant!r} has no key {signature.key_id!r} here; sign with one that the operators have"
    if not signature.matches(secret, world.catalogue.settings.prefix, arrival.value or b""):
        return f"the signature by the key {signature.key_id!r} does not fit the value; sign what is sent, byte for byte"
    return None


def _out_of_time(signature: Signature, arrival: Arrival, world: World, clock_ms: int) -> str | None:
    allowed_ms = world.limits.signature_tolerance_ms
    late_ms, early_ms = clock_ms - signature.at_ms, signature.at_ms - min(arrival.appended_ms, clock_ms)
    off_ms, side = max((late_ms, "before"), (early_ms, "after"))
    if off_ms <= allowed_ms:
        return None
    cure = "write Unix milliseconds" if signature.at_ms < clock_ms // 100 else "set the clock"  # it may be in seconds
    return (
        f"it was signed {off_ms / 1000:.0f} s {side} it was appended, and {allowed_ms / 1000:g} s are allowed; "
        f"{cure}, and sign again"
    )
