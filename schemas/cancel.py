"""How a request is taken back: what its tenant says in requests, and the record that comes of it in cancels."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from schemas.names import RequestId, Tenant


class CancelRequest(BaseModel):
    """Asks that a request of the same tenant ends. It travels in requests as its request did, behind it.

    It names the request and is none: it ends in no event of its own. Sent again, it is harmless.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    schema_version: Literal[1] = 1
    tenant: Tenant
    request_id: RequestId = Field(description="Of the request that is to end.")
    cancel: Literal[True]

    @field_validator("schema_version", mode="before")
    @classmethod
    def _a_number(cls, value: Any) -> Any:
        if type(value) is not int:  # True and 1.0 are equal to 1, and no version
            raise ValueError("send the integer 1")
        return value


class Cancel(BaseModel):
    """A record of cancels, keyed by tenant/request-id: readers go by its key and LogAppendTime, whatever its value is.

    A tombstone takes it back.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    schema_version: Literal[1] = 1
    by: Literal["tenant", "operator"] = Field(description="For people: who wrote it, admission for the tenant, or not.")


def asks_for_cancel(body: Mapping[str, Any]) -> bool:
    """A body whose `cancel` is true is no request, whatever else it says."""
    return body.get("cancel") is True
