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

from schemas.names import REQUEST_ID_PATTERN, TENANT_PATTERN, RequestId, Tenant
from schemas.tenants import KEY_PATTERN, ApiKey

SCHEMA_VERSION = 1
SEED_MAX = 2**53 - 1  # the largest integer every JSON reader takes exactly

Lane = Literal["interactive", "standard", "bulk"]
LANES: tuple[Lane, ...] = ("interactive", "standard", "bulk")
# Of the GPUs' time. Bulk is where a flood waits: it goes on beside the others, and costs them a few hundredths.
LANE_WEIGHTS: Mapping[Lane, float] = {"interactive": 64.0, "standard": 16.0, "bulk": 1.0}

# What a pattern asks for, in words.
FORMS = {
    TENANT_PATTERN: "1 to 64 of the letters A-Z a-z 0-9 . _ -",
    KEY_PATTERN: "1 to 64 of the letters A-Z a-z 0-9 . _ -",
    REQUEST_ID_PATTERN: "1 to 128 characters without control characters",
}

_TIME = "send an RFC 3339 time with its offset, such as 2030-01-31T12:00:00Z"

# By the kind of error: what to send instead, where pydantic's own sentence speaks of Python, or of no cure.
_CURES = {
    "bool_type": "send true or false",
    "datetime_from_date_parsing": _TIME,
    "datetime_parsing": _TIME,
    "dict_type": "send an object",
    "int_type": "send an integer",
    "model_type": 'send an object, such as {"name": "sketch"}',  # of all models here, only a config is a field
    "string_type": "send a string",
    "timezone_aware": _TIME,
}


def _timestamp_text(value: Any) -> Any:
    if not isinstance(value, str) or value[4:5] != "-":  # pydantic alone would take digits for a Unix time
        raise ValueError(_TIME)
    return value


def _nothing_yet(value: Any) -> Any:
    if value != []:
        raise ValueError("it is reserved; leave it out")
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
    inputs: Annotated[list[Any], BeforeValidator(_nothing_yet), Field(max_length=0)] = Field(
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
    form = FORMS.get(detail.get("ctx", {}).get("pattern", ""))
    said = f"send a string of {form}" if form else _CURES.get(detail["type"], detail["msg"])
    return field, f"the field {field!r} is invalid: {said.removeprefix('Value error, ')}"
