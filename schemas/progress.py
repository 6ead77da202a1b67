"""How far a job is, for whoever watches it: best effort, in progress, keyed by tenant. What counts is its result.

Readers tolerate fields they do not know. No event holds a prompt.
"""

from typing import Annotated, Literal, TypeAlias

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from schemas.reading import read_event

State: TypeAlias = Literal["queued", "started", "step"]


class ProgressEvent(BaseModel):
    """queued: a GPU consumer has taken it, and it waits there. started: its first picture is in a batch. step: so many
    steps are made of all that its pictures take together."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    schema_version: Literal[1] = 1
    tenant: str = Field(min_length=1)
    request_id: str = Field(min_length=1)
    job_id: str = Field(min_length=1)
    state: State
    step: Annotated[int, Field(ge=0)] = Field(default=0, description="Steps made, of all its pictures together.")
    steps: Annotated[int, Field(ge=1)] = Field(description="That it takes: those of its config for each picture.")
    drawing: tuple[Annotated[int, Field(ge=0)], ...] = Field(
        default=(), description="Which of its pictures are in a batch now, counted from 0."
    )
    pool: str = Field(min_length=1, description="Whose GPUs it waits for, or runs on.")
    config_hash: str = Field(min_length=1, description="Of the config it runs with, as its result will say.")
    at: AwareDatetime = Field(description="When it was so, by the clock of the GPU consumer.")


def decode_progress(data: bytes) -> ProgressEvent:
    """Raises Undecodable on anything else, a later version included."""
    return read_event(ProgressEvent, data, "progress")
