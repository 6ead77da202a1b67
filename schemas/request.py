"""What a producer says: one GenerationRequest a record of the requests topic, keyed by its tenant."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from schemas.names import RequestId, Tenant
from schemas.tenants import ApiKey

SCHEMA_VERSION = 1
SEED_MAX = 2**53 - 1  # the largest integer every JSON reader takes exactly

Lane = Literal["interactive", "standard", "bulk"]
LANES: tuple[Lane, ...] = ("interactive", "standard", "bulk")
# Of the GPUs' time. Bulk is where a flood waits: it goes on beside the others, and costs them a few hundredths.
LANE_WEIGHTS: Mapping[Lane, float] = {"interactive": 64.0, "standard": 16.0, "bulk": 1.0}


def _timestamp_text(value: Any) -> Any:
    if not isinstance(value, str) or value[4:5] != "-":  # pydantic alone would take digits for a Unix time
        raise ValueError("send an RFC 3339 time with its offset, such as 2030-01-31T12:00:00Z")
    return value


Timestamp = Annotated[AwareDatetime, BeforeValidator(_timestamp_text), Field(strict=False)]


class ConfigRef(BaseModel):
    """Names a frozen configuration: by version, or by a channel such as `stable` (the default)."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: Annotated[str, Field(min_length=1, max_length=64)]
    version: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    channel: Annotated[str, Field(min_length=1, max_length=64)] | None = None

    @field_validator("channel")
    @classmethod
    def _one_of(cls, channel: str | None, info: ValidationInfo) -> str | None:
        """Of the channel, since most requests give none: a validator of the whole model is called for each."""
        if channel is not None and info.data.get("version") is not None:
            raise ValueError("give a version or a channel, not both")
        return channel


class GenerationRequest(BaseModel):
    """A wish for `images` pictures of `prompt`. Unknown fields are refused by name; limits are admission's settings."""

    # What is wrong may be a prompt, and an error may come into a log.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)

    schema_version: Literal[1] = 1
    request_id: RequestId = Field(description="Names the request within its tenant; a repeat of it is free.")
    tenant: Tenant = Field(description="Who pays. Records are keyed by it.")
    key: ApiKey | None = Field(
        default=None, description="Which key of the tenant asks; it may have a quota of its own."
    )
    prompt: str = Field(min_length=1)
    negative_prompt: str = ""
    config: ConfigRef
    seed: Annotated[int, Field(ge=0, le=SEED_MAX)] | None = Field(
        default=None,
        description="Picture k of the request is drawn with seed + k; absent, one is drawn from the job id.",
    )
    images: Annotated[int, Field(ge=1, le=1024)] = 1
    priority: Lane = "standard"
    deadline: Timestamp | None = Field(default=None, description="After it the request ends as expired.")
    may_degrade: bool = Field(default=False, description="Under overload a cheaper sibling config may be used.")
    retry_of: RequestId | None = Field(default=None, description="The rejected or failed request this one tries again.")
    metadata: dict[str, str] = Field(default_factory=dict, description="Returned in the result as it is.")
    inputs: Annotated[list[Any], Field(max_length=0)] = Field(
        default_factory=list, description="Reserved for pictures to start from."
    )


def first_problem(error: ValidationError) -> tuple[str, str]:
    """The (field, sentence) of a refused body; the unknown field first, for it is most often a misspelling."""
    details = error.errors(include_url=False, include_input=False)
    detail = min(details, key=lambda each: each["type"] != "extra_forbidden")
    field = ".".join(str(part) for part in detail["loc"]) or "body"
    if detail["type"] == "extra_forbidden":
        return field, f"the field {field!r} is unknown; remove it or correct its name"
    if detail["type"] == "missing":
        return field, f"the field {field!r} is missing; add it"
    return field, f"the field {field!r} is invalid: {detail['msg'].removeprefix('Value error, ')}"
