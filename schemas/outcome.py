"""The one stored end of a job: created once in the object store, and what is stored is what is published."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from schemas.codec import decode_object
from schemas.errors import Undecodable, UnknownVersion
from schemas.result import GenerationResult


class WorkRecord(BaseModel):
    """The coordinates of a record of work. Only the record an outcome names may publish it."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    topic: str
    partition: int
    offset: int


class Outcome(BaseModel):
    """A job's result, the work record that produced it, and where it is to be published."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    schema_version: Literal[1] = 1
    job_id: str
    record: WorkRecord
    results_partition: int
    result: GenerationResult


def decode_outcome(data: bytes) -> Outcome:
    """Read a stored outcome. Raises UnknownVersion where a newer consumer wrote it, Undecodable on garbage."""
    body = decode_object(data)
    version = body.get("schema_version", 1)
    if version != 1:
        raise UnknownVersion(f"outcome of schema version {version}; this consumer reads version 1: upgrade it")
    try:
        return Outcome.model_validate_json(data)
    except ValidationError as error:
        raise Undecodable(f"outcome: {error.errors(include_url=False, include_input=False)[0]['msg']}") from error
