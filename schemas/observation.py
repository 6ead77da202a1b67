"""What batches took on one kind of device, in `observations`: one record a key, the newest counts.

Engines that start learn from it what fits, and whoever sets prices sees what pictures cost.
"""

from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from schemas.reading import read_event

_BYTES_MAX = 1 << 50  # no card has as much


class Observation(BaseModel):
    """Of the last batches of one consumer; another of the same device may write the next."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    schema_version: Literal[1] = 1
    device: str = Field(min_length=1, max_length=200, description="Its product, as its vendor names it.")
    pool: str = Field(default="", max_length=200, description="Whose consumer measured it; empty where none said so.")
    kind: str = Field(min_length=1, max_length=200, description="What may share a batch: model, dtype and shape.")
    bucket: Annotated[int, Field(ge=1, le=256)] = Field(description="Pictures in the padded batch.")
    config_hash: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    peak_bytes: Annotated[int, Field(ge=0, le=_BYTES_MAX)] = Field(
        description="P95 of the batch's peak memory beside the weights."
    )
    gpu_seconds: Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)] = Field(
        description="P95 of one picture of this configuration: its share of its batches."
    )
    count: Annotated[int, Field(ge=1, le=1 << 31)] = Field(description="Batches that the two figures are of.")
    at: AwareDatetime

    @property
    def key(self) -> bytes:
        """Of its record. A device's name may hold a slash, so it comes last."""
        return f"{self.kind}/{self.bucket}/{self.config_hash}/{self.device}".encode()


def decode_observation(data: bytes) -> Observation:
    """Read an observation. Raises Undecodable on anything else, a later version included: nobody depends on one."""
    return read_event(Observation, data, "observation")
