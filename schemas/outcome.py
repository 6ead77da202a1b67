"""The one stored end of a job: created once in the object store, and what is stored is what is published."""

from typing import Literal

from pydantic import BaseModel, ConfigDict

from schemas.reading import read_held_event
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
    return read_held_event(Outcome, data, "outcome")
