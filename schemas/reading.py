"""Reading an event that a process of ours wrote: strict JSON, then its model, and one sentence where it is neither."""

from typing import TypeVar

from pydantic import BaseModel, ValidationError

from schemas.codec import decode_object
from schemas.errors import Undecodable, UnknownVersion

_Event = TypeVar("_Event", bound=BaseModel)


def read_event(kind: type[_Event], data: bytes, what: str) -> _Event:
    """Raises Undecodable, which calls the event `what`; a later version of it is refused likewise."""
    try:
        return kind.model_validate(decode_object(data))
    except ValidationError as error:
        # Not from it: it quotes what it read, which may be a prompt, and a traceback comes into a log.
        raise Undecodable(f"{what}: {first_fault(error)}") from None


def read_held_event(kind: type[_Event], data: bytes, what: str) -> _Event:
    """The same of an event that no consumer may lose. Raises UnknownVersion where a newer release wrote it."""
    body = decode_object(data)
    version = body.get("schema_version", 1)
    if version != 1:
        raise UnknownVersion(f"{what} of schema version {version}; this consumer reads version 1: upgrade it")
    try:
        return kind.model_validate(body)
    except ValidationError as error:
        if error.errors()[0]["type"] == "extra_forbidden":
            raise UnknownVersion(f"{what}: {first_fault(error)}: of a newer release; upgrade this consumer") from None
        raise Undecodable(f"{what}: {first_fault(error)}") from None


def first_fault(error: ValidationError) -> str:
    """Where the first thing wrong is, and what is wrong with it; not what stands there."""
    detail = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(map(str, detail["loc"])) or "body"
    return f"{where}: {detail['msg']}"
