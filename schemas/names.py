"""How tenants, requests and jobs are named."""

from hashlib import sha1
from typing import Annotated
from uuid import UUID

from pydantic import StringConstraints

TENANT_PATTERN = r"^[A-Za-z0-9._-]{1,64}$"
REQUEST_ID_PATTERN = r"^[^\x00-\x1f\x7f]{1,128}$"

# The digit that has the two bits of the variant, by what the digest has there.
_VARIANTS = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}

Tenant = Annotated[str, StringConstraints(pattern=TENANT_PATTERN)]
RequestId = Annotated[str, StringConstraints(pattern=REQUEST_ID_PATTERN)]


def request_name(tenant: str, request_id: str) -> bytes:
    """The key of a request in decisions and cancels. A tenant has no slash, so the first one splits the key."""
    return f"{tenant}/{request_id}".encode()


def job_id(birth: UUID, tenant: str, request_id: str, partition: int, offset: int) -> str:
    """A request's identity inside: a UUID of version 5 (RFC 9562). `birth` is minted once a requests partition, so that
    a wiped broker beside a kept store cannot answer new requests with old pictures."""
    name = f"{tenant}/{request_id}/{partition}/{offset}"
    # As text at once: uuid5() and its UUID took as long as to validate the request.
    digits = sha1(birth.bytes + name.encode(), usedforsecurity=False).hexdigest()
    variant = _VARIANTS[digits[16]]
    return f"{digits[:8]}-{digits[8:12]}-5{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:32]}"


def seed_of(job: str) -> int:
    """The seed of a job whose request gave none: 53 bits of its id, exact in every JSON reader."""
    return UUID(job).int >> 75
