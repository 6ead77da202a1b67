"""configs.lock: the hash of every version that was ever published, so that none of them changes a pixel later."""

import json
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from schemas.catalogue import ConfigCatalogue
from schemas.errors import CatalogueError

LOCK_NAME = "configs.lock"
_LOCKED = TypeAdapter(dict[str, str])


def read_lock(folder: Path) -> dict[str, str]:
    """`name@version` -> hash; empty where there is no lock yet. Raises CatalogueError where it cannot be read."""
    path = folder / LOCK_NAME
    try:
        return _LOCKED.validate_json(path.read_bytes()) if path.exists() else {}
    except (OSError, ValidationError) as error:
        raise CatalogueError(f"{path} cannot be read as a lock; bring it back from version control") from error


def check_lock(catalogue: ConfigCatalogue, folder: Path) -> list[str]:
    """One sentence for each published version whose hash changed or that left its file, and for each that is not locked
    yet. Empty: all is well. Raises CatalogueError where there is a lock that cannot be read."""
    locked, now = read_lock(folder), catalogue.hashes()
    unlocked = [f"{label} is not in {LOCK_NAME} yet; run kiln configs lock" for label in now.keys() - locked.keys()]
    return sorted(_broken(locked, now) + unlocked)


def write_lock(catalogue: ConfigCatalogue, folder: Path) -> list[str]:
    """Add the new versions to the lock. Changes nothing and returns the problems where a published version changed."""
    now = catalogue.hashes()
    problems = sorted(_broken(read_lock(folder), now))
    if not problems:
        text = json.dumps(now, indent=2, sort_keys=True) + "\n"
        (folder / LOCK_NAME).write_text(text, encoding="utf-8")
    return problems


def _broken(locked: dict[str, str], now: dict[str, str]) -> list[str]:
    changed = [
        f"{label} is published and its pixels changed; undo the change and add a new version"
        for label, digest in locked.items()
        if now.get(label, digest) != digest
    ]
    gone = [f"{label} is published and missing from its file; bring it back, retired" for label in locked.keys() - now]
    return changed + gone
