"""Bytes to a readable name, or a dead letter.

A request that names its tenant and itself must end in an event of that name. So where a body is not strict JSON, the
name is looked for once more with a forgiving reader, and the request is refused under it instead of dead-lettered.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from admission.draft import Refusal
from schemas.codec import canonical, decode_object, sha256_hex, too_deep
from schemas.errors import Undecodable
from schemas.names import REQUEST_ID_PATTERN, TENANT_PATTERN
from schemas.request import FORMS
from schemas.topics import REQUEST_BYTES_MAX

_NAME_FIELDS = {
    "tenant": (re.compile(TENANT_PATTERN).fullmatch, FORMS[TENANT_PATTERN]),
    "request_id": (re.compile(REQUEST_ID_PATTERN).fullmatch, FORMS[REQUEST_ID_PATTERN]),
}


class Named(NamedTuple):
    """A body with a readable name. `digest` is of its canonical form, or of the bytes where it has none."""

    tenant: str
    request_id: str
    body: Mapping[str, Any] | Refusal
    digest: str


@dataclass(frozen=True, slots=True)
class Malformed:
    message: str


class _Members(list[tuple[str, Any]]):
    """An object as it was written, repeated keys and all."""


def _inside(container: list[Any]) -> list[Any]:
    return [content for _, content in container] if isinstance(container, _Members) else container


_forgiving = json.JSONDecoder(
    object_pairs_hook=_Members, parse_int=lambda _: None, parse_float=lambda _: None, parse_constant=lambda _: None
)


def decode(value: bytes | None) -> Named | Malformed:
    """Never raises, whatever the bytes are."""
    if value is None:
        return Malformed("the record has no value; a request cannot be deleted, send a cancel instead")
    if len(value) > REQUEST_BYTES_MAX:  # a compressed batch may unfold to this, and reading it takes ten times as much
        return Malformed(f"the value has {len(value)} bytes; send at most {REQUEST_BYTES_MAX}")
    try:
        body = decode_object(value)
    except Undecodable as error:
        return _named_beside_a_flaw(value, str(error)) or Malformed(str(error))
    for field, (fits, form) in _NAME_FIELDS.items():
        name = body.get(field)
        if type(name) is not str or fits(name) is None:
            problem = "invalid" if field in body else "missing"
            return Malformed(f"the field {field!r} is {problem}; send a string of {form}")
    return Named(body["tenant"], body["request_id"], body, sha256_hex(canonical(body)))


def _named_beside_a_flaw(value: bytes, flaw: str) -> Named | None:
    try:
        members = _forgiving.decode(value.decode("utf-8"))
    except (RecursionError, ValueError):
        return None
    if not isinstance(members, _Members) or too_deep(members, _inside):
        return None
    names = []
    for field, (fits, _) in _NAME_FIELDS.items():
        found = [content for key, content in members if key == field]
        if len(found) != 1 or not isinstance(found[0], str) or fits(found[0]) is None:
            return None
        names.append(found[0])
    tenant, request_id = names
    if any("\ud800" <= character <= "\udfff" for character in request_id):
        return None
    return Named(tenant, request_id, Refusal("invalid_request", flaw, "body"), sha256_hex(value))
