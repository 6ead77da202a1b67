"""What every store must prove before outcomes are trusted to it."""

import secrets
from typing import Protocol

from gpu_consumer.store.base import ObjectStore, StoreRefused

_TYPE = "application/octet-stream"


class Probed(ObjectStore, Protocol):
    """A store that can also take back what the probe wrote."""

    def delete(self, key: str) -> None:
        """Remove the object if it is there."""


def check_promises(store: Probed) -> None:
    """Write, read and conditionally create under .probe/, then remove it.

    Raises StoreRefused with the promise that is broken, StoreUnavailable where the store does not answer.
    """
    name = f".probe/{secrets.token_hex(16)}"
    written, decided = f"{name}-put", f"{name}-create"
    try:
        _check(store, written, decided)
    finally:
        store.delete(written)
        store.delete(decided)


def _check(store: Probed, written: str, decided: str) -> None:
    if store.get(decided) is not None:
        raise StoreRefused(f"{store.uri(decided)} has an object nobody wrote; use a store that keys objects exactly")
    store.put(written, b"first", _TYPE)
    store.put(written, b"second", _TYPE)
    if store.get(written) != b"second":
        raise StoreRefused(f"{store.uri(written)} does not read as just written; use a store with consistent reads")
    if not store.create(decided, b"first", _TYPE):
        raise StoreRefused(f"{store.uri(decided)} cannot be created though it is not there; check the store")
    if store.create(decided, b"second", _TYPE) or store.get(decided) != b"first":
        raise StoreRefused(
            f"{store.uri(decided)} was created twice: this store ignores If-None-Match, so a job could end twice; "
            "use a store with conditional writes"
        )
