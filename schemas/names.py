"""How tenants, requests and jobs are named."""

from hashlib import sha1
from typing import Annotated
from uuid import UUID

from pydantic import StringConstraints

TENANT_PATTERN = r"^[A-Za-z0-9._-]{1,64}$"
REQUEST_ID_PATTERN = r"^[^\x00-\x1f\x7f]{1,128}$"

Tenant = Annotated[str, StringConstraints(pattern=TENANT_PATTERN)]
RequestId = Annotated[str, StringConstraints(pattern=REQUEST_ID_PATTERN)]


def request_name(tenant: str, request_id: str) -> bytes:
    """The key of a request in decisions and cancels. A tenant has no slash, so the first one splits the key."""
    return f"{tenant}/{request_id}".encode()


def job_id(birth: UUID, tenant: str, request_id: str, partition: int, offset: int) -> UUID:
    """A request's identity inside. `birth` is minted once a requests partition, so that a wiped broker beside a kept
    store cannot answer new requests with old pictures."""
    name = f"{tenant}/{request_id}/{partition}/{offset}"
    # What uuid5() gives, which imports its hash anew at every call: a tenth of a decision.
    return UUID(bytes=sha1(birth.bytes + name.encode(), usedforsecurity=False).digest()[:16], version=5)


def seed_of(job: UUID) -> int:
    """The seed of a job whose request gave none: 53 bits of its id, exact in every JSON reader."""
    return job.int >> 75
