"""Schema and sizes: what needs nothing but the record itself."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from admission.arrival import Arrival
from admission.draft import Draft, Refusal, StageResult
from admission.settings import AdmissionLimits
from admission.state import State
from admission.text import longest_unseen, visible
from admission.world import World
from schemas.request import SCHEMA_VERSION, SEED_MAX, GenerationRequest, first_problem

# What model_validate() calls once it has looked at arguments that are not given here, for a fifth of the time.
_validate = GenerationRequest.__pydantic_validator__.validate_python

# A request has fewer than twenty fields, its config three: whoever misspelt one is still told which.
_FIELDS_MAX = 64


def limits(draft: Draft, state: State, world: World) -> StageResult:
    """The request as its sender meant it, every size within the settings."""
    del state
    refusal = envelope(draft.arrival, draft.tenant, world.limits) or _parsed(draft, world.limits)
    if refusal is not None:
        return refusal
    request = draft.request
    refusal = _metadata(request.metadata, world.limits)
    if refusal is not None:
        return refusal
    draft.metadata = request.metadata  # small enough now to be returned in a rejection
    return _prompts(request, world.limits) or _pictures(request, world.limits)


def envelope(arrival: Arrival, tenant: str, limits: AdmissionLimits) -> StageResult:
    """All of the record but its value: key, headers, and how much it is together."""
    if arrival.key is not None and arrival.key != tenant.encode():
        return Refusal("invalid_request", "the record's key differs from the tenant; send the tenant, or no key", "key")
    if len(arrival.headers) > limits.headers_max:
        return Refusal("too_large", f"{len(arrival.headers)} headers; send at most {limits.headers_max}", "headers")
    if arrival.headers_bytes > limits.headers_bytes_max:
        return Refusal(
            "too_large", f"{arrival.headers_bytes} bytes of headers; send at most {limits.headers_bytes_max}", "headers"
        )
    if arrival.record_bytes > limits.record_bytes_max:
        return Refusal(
            "too_large", f"the record has {arrival.record_bytes} bytes; send at most {limits.record_bytes_max}", "body"
        )
    return None


def _parsed(draft: Draft, limits: AdmissionLimits) -> StageResult:
    if isinstance(draft.body, Refusal):
        return draft.body
    version = draft.body.get("schema_version", SCHEMA_VERSION)
    if type(version) is not int or version != SCHEMA_VERSION:  # True and 1.0 are equal to 1, and no version
        what = repr(version)[:32] if isinstance(version, int | float | str) else "of another type"
        return Refusal(
            "unsupported_schema", f"schema version {what}; this service reads {SCHEMA_VERSION}", "schema_version"
        )
    crowd = _crowd(draft.body, limits)
    if crowd is not None:
        return crowd
    try:
        request: GenerationRequest = _validate(draft.body)
    except ValidationError as error:
        field, message = first_problem(error)
        return Refusal("invalid_seed" if field == "seed" else "invalid_request", message, field)
    draft.request = request
    draft.retry_of = request.retry_of
    draft.key = request.key
    return None


def _crowd(body: Mapping[str, Any], limits: AdmissionLimits) -> StageResult:
    """Counted before the schema complains of each one: a complaint takes a hundred times the bytes it is about."""
    config, metadata = body.get("config"), body.get("metadata")
    if len(body) > _FIELDS_MAX:
        return _too_many("body", body, _FIELDS_MAX)
    if isinstance(config, dict) and len(config) > _FIELDS_MAX:
        return _too_many("config", config, _FIELDS_MAX)
    if isinstance(metadata, dict) and len(metadata) > limits.metadata_entries_max:
        return _too_many("metadata", metadata, limits.metadata_entries_max)
    return None


def _too_many(field: str, members: Mapping[str, Any], most: int) -> Refusal:
    return Refusal("invalid_request", f"{len(members)} entries of {field}; send at most {most}", field)


def _metadata(metadata: dict[str, str], limits: AdmissionLimits) -> StageResult:
    for key, value in metadata.items():
        if "\0" in key or "\0" in value:
            return _nul("metadata")
        if len(key.encode()) > limits.metadata_key_bytes_max:
            return Refusal(
                "invalid_request",
                f"a key of metadata has more than {limits.metadata_key_bytes_max} bytes; shorten it",
                "metadata",
            )
        if len(value.encode()) > limits.metadata_value_bytes_max:
            return Refusal(
                "invalid_request",
                f"the metadata {key!r} has more than {limits.metadata_value_bytes_max} bytes; shorten it",
                "metadata",
            )
    return None


def _prompts(request: GenerationRequest, limits: AdmissionLimits) -> StageResult:
    prompt, negative = request.prompt, request.negative_prompt
    if not _plain(prompt, min(limits.prompt_code_points_max, limits.prompt_bytes_max)):
        refusal = (
            _prompt("prompt", prompt, limits.prompt_code_points_max, limits.prompt_bytes_max)
            or _seen(prompt)
            or _flood("prompt", prompt, limits.unseen_run_max)
        )
        if refusal is not None:
            return refusal
    if not negative:
        return None
    return _prompt(
        "negative_prompt", negative, limits.negative_prompt_code_points_max, limits.negative_prompt_bytes_max
    ) or _flood("negative_prompt", negative, limits.unseen_run_max)


def _plain(text: str, length_max: int) -> bool:
    """Most are: a byte a character, each to be seen, and not too many."""
    return len(text) <= length_max and text.isascii() and text.isprintable() and not text.isspace()


def _prompt(field: str, text: str, code_points_max: int, bytes_max: int) -> StageResult:
    if "\0" in text:
        return _nul(field)
    if len(text) > code_points_max:
        return Refusal("prompt_too_long", f"{field} has {len(text)} code points; send at most {code_points_max}", field)
    size = len(text.encode())
    if size > bytes_max:
        return Refusal("prompt_too_long", f"{field} has {size} bytes in UTF-8; send at most {bytes_max}", field)
    return None


def _seen(prompt: str) -> StageResult:
    if visible(prompt):
        return None
    return Refusal("invalid_request", "nothing of the prompt can be seen; write what is meant", "prompt")


def _flood(field: str, text: str, run_max: int) -> StageResult:
    run = longest_unseen(text)
    if run <= run_max:
        return None
    return Refusal(
        "invalid_request", f"{field} has {run} marks or unseen characters in a row; send at most {run_max}", field
    )


def _nul(field: str) -> Refusal:
    """Some tokenizers and terminals end a text at it, so that no two would read the same."""
    return Refusal("invalid_request", f"{field} has the character U+0000; remove it", field)


def _pictures(request: GenerationRequest, limits: AdmissionLimits) -> StageResult:
    if request.images > limits.images_max:
        return Refusal("invalid_request", f"{request.images} images; ask for at most {limits.images_max}", "images")
    if request.seed is not None and request.seed + request.images - 1 > SEED_MAX:
        return Refusal(
            "invalid_seed",
            f"the seed of the last picture would be above {SEED_MAX}; send a smaller seed or ask for fewer images",
            "seed",
        )
    return None
