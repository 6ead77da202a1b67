"""What the owner of a requests partition tells the others of its work: one Demand a partition, in observations."""

from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from schemas.reading import read_event

DEMAND_PREFIX = b"demand/"
RATE_MAX = 1e18  # no deployment has so much, and the sum of all partitions is still far from infinite
Seconds = Annotated[float, Field(ge=0, le=RATE_MAX, allow_inf_nan=False)]


class Demand(BaseModel):
    """Best effort, every few seconds; an old one is believed for a bounded time."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    schema_version: Literal[1] = 1
    partition: Annotated[int, Field(ge=0)]
    waiting: dict[str, dict[str, Seconds]] = Field(
        description="Pool to lane to GPU-seconds accepted and not finished, by their price."
    )
    rates: dict[str, dict[str, Seconds]] = Field(
        description="Pool to `model key/config hash` to GPU-seconds accepted a second, over the last minutes. Beyond "
        "the highest ones a sum a model, under its key twice."
    )
    at: AwareDatetime

    @property
    def key(self) -> bytes:
        return DEMAND_PREFIX + str(self.partition).encode()


def decode_demand(data: bytes) -> Demand:
    """Raises Undecodable on anything else."""
    return read_event(Demand, data, "demand")
