"""What tenants sign with: files `<folder>/<tenant>/<key id>`, read again when they change.

Made for a mounted secret: what appears is a new key, what is gone is one taken back, and a tenant may have several
while its producers change from one to the next.
"""

import asyncio
import logging
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Self, TypeAlias

from admission.world import World
from schemas.errors import CatalogueError
from schemas.names import TENANT_PATTERN
from schemas.signature import read_key
from schemas.tenants import Tenants
from streams.kafka.periodic import failure_of

_LOG = logging.getLogger(__name__)
_TENANT = re.compile(TENANT_PATTERN)

Secrets: TypeAlias = Mapping[str, Mapping[str, bytes]]
_Seen: TypeAlias = frozenset[tuple[str, int, int, int]]


class SecretsFact:
    """Nothing is decided before every tenant that is declared to sign has a key here: what it sends would be dead
    letters for want of a mount. Later a last key that goes is one taken back, and holds up nobody. A folder that cannot
    be read any more leaves the keys as they were."""

    name = "signing keys"

    def __init__(self, folder: Path | None, tenants: Tenants, every_seconds: float) -> None:
        self._folder = folder
        self._signing = sorted(name for name, quota in tenants.tenants.items() if quota.signed)
        by_default = tenants.default is not None and tenants.default.signed
        who = [f"tenant {name!r} must sign" for name in self._signing] + ["tenants must sign by default"] * by_default
        self._must = who[0] if who else None
        self._every_seconds = every_seconds
        self._secrets: Secrets = {}
        self._seen: _Seen | None = None
        self._problem: str | None = "signing keys were not read yet"
        self._current_at = time.monotonic()
        self._looking: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        if self._folder is None:
            why = f"{self._must} and there is no folder of keys; set KILN_ADMISSION_SERVICE_SIGNING_KEYS"
            self._problem = why if self._must else None
            return self
        await self._look(self._folder)
        self._looking = asyncio.create_task(self._keep_looking(self._folder), name=self.name)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait({self._looking})

    @property
    def problem(self) -> str | None:
        return self._problem

    @property
    def failure(self) -> Exception | None:
        return failure_of(self._looking)

    @property
    def age_seconds(self) -> float:
        return time.monotonic() - self._current_at if self._folder is not None else 0.0

    def into(self, world: World) -> World:
        return replace(world, secrets=self._secrets)

    async def _keep_looking(self, folder: Path) -> None:
        while True:
            await asyncio.sleep(self._every_seconds)
            await self._look(folder)

    async def _look(self, folder: Path) -> None:
        try:
            seen = await asyncio.to_thread(_stats, folder)
            if seen != self._seen:
                self._secrets = await asyncio.to_thread(read_secrets, folder)
                self._seen = seen
                _LOG.info("signing keys: %d of %d tenants", sum(map(len, self._secrets.values())), len(self._secrets))
        except OSError as error:
            sentence = f"the signing keys in {folder} cannot be read ({error.strerror}); mount them"
            _LOG.warning("%s", sentence)
            if self._problem is not None:
                self._problem = sentence
            return
        self._current_at = time.monotonic()
        if self._problem is not None:
            without = next((tenant for tenant in self._signing if not self._secrets.get(tenant)), None)
            why = f"tenant {without!r} must sign and has no key in {folder}; mount one"
            self._problem = None if without is None else why


def read_secrets(folder: Path) -> Secrets:
    """Tenant -> key id -> secret. A file that holds no key is left out, and said. Blocks. Raises OSError."""
    secrets: dict[str, dict[str, bytes]] = {}
    for path in _files(folder):
        try:
            key = read_key(path)
        except CatalogueError as error:
            _LOG.warning("%s", error)
        else:
            secrets.setdefault(path.parent.name, {})[key.key_id] = key.secret
    return secrets


def _files(folder: Path) -> Iterator[Path]:
    """Without what a mount keeps for itself under names like `..data`."""
    for tenant in sorted(folder.iterdir()):
        if _TENANT.fullmatch(tenant.name) and not tenant.name.startswith("..") and tenant.is_dir():
            yield from (path for path in sorted(tenant.iterdir()) if not path.name.startswith("..") and path.is_file())


def _stats(folder: Path) -> _Seen:
    """What changes when a key does. Blocks. Raises OSError."""
    stats = [(str(path), path.stat()) for path in _files(folder)]
    return frozenset((name, stat.st_ino, stat.st_mtime_ns, stat.st_size) for name, stat in stats)
