"""A request that proves whose it is: an HMAC of its value in a header (RFC 2104, with SHA-256).

    kiln-signature: v1 <key id> <Unix milliseconds> <64 hex digits>

The value names the tenant, so the tenant is signed with it. The deployment, the key's name and the time are signed
beside it; neither the record's key nor its other headers are.
"""

import hmac
import re
from dataclasses import dataclass, field
from pathlib import Path

from schemas.errors import CatalogueError
from schemas.tenants import KEY_PATTERN

HEADER_SIGNATURE = "kiln-signature"
_KEY_ID = re.compile(KEY_PATTERN)
SECRET_BYTES_MIN = 16  # what is shorter can be guessed
SECRET_BYTES_MAX = 4096
_FORM = re.compile(rb"v1 ([A-Za-z0-9._-]{1,64}) ([0-9]{1,15}) ([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class Signature:
    """What a header says. Nothing of it is proven yet."""

    key_id: str
    at_ms: int
    code: bytes

    def matches(self, secret: bytes, deployment: str, value: bytes) -> bool:
        """In the same time whatever it is."""
        return hmac.compare_digest(self.code, _code(secret, deployment, self.key_id, self.at_ms, value))


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A tenant's secret. `deployment` is the prefix of its topics, so that no other one takes what was signed here."""

    key_id: str
    secret: bytes = field(repr=False)

    def sign(self, value: bytes, deployment: str, at_ms: int) -> bytes:
        """The header's value for a record with this value, sent at `at_ms`."""
        code = _code(self.secret, deployment, self.key_id, at_ms, value)
        return f"v1 {self.key_id} {at_ms} {code.hex()}".encode()


def parse_signature(header: bytes) -> Signature | None:
    """None: it has another form."""
    found = _FORM.fullmatch(header)
    return None if found is None else Signature(found[1].decode(), int(found[2]), bytes.fromhex(found[3].decode()))


def read_key(path: Path) -> SigningKey:
    """The key that a file holds: its name is the key's, its bytes without the line's end are the secret.

    Blocks. Raises CatalogueError, which says nothing of what is in it.
    """
    if not _KEY_ID.fullmatch(path.name):
        raise CatalogueError(f"{path} is no name of a signing key; take 1 to 64 of the letters A-Z a-z 0-9 . _ -")
    try:
        with path.open("rb") as file:
            secret = file.read(SECRET_BYTES_MAX + 1).rstrip(b"\r\n")
    except OSError as error:
        raise CatalogueError(f"the signing key {path} cannot be read: {error.strerror}") from error
    if not SECRET_BYTES_MIN <= len(secret) <= SECRET_BYTES_MAX:
        raise CatalogueError(
            f"the signing key {path} must have {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} bytes; "
            f"make one with: openssl rand -hex 32"
        )
    return SigningKey(path.name, secret)


def _code(secret: bytes, deployment: str, key_id: str, at_ms: int, value: bytes) -> bytes:
    # Neither name holds a line's end, so no two different requests make the same text.
    return hmac.digest(secret, f"promptkiln v1\n{deployment}\n{key_id}\n{at_ms}\n".encode() + value, "sha256")
