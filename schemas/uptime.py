"""How long a GPU consumer was there, and what it did meanwhile: a record of `uptime` a consumer and hour (UTC).

It is written again within its hour, each time with more; the newest counts. What was not told when a process was killed
is lost: a minute at most, as the settings are.
"""

from datetime import datetime, timedelta
from typing import Annotated, Literal, get_args

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from schemas.reading import read_event

HOUR_SECONDS = 3600
State = Literal["busy", "loading", "idle"]
STATES: tuple[State, ...] = get_args(State)
Seconds = Annotated[float, Field(ge=0, le=HOUR_SECONDS + 1, allow_inf_nan=False)]


class Uptime(BaseModel):
    """busy: at least one slot was taken. loading: from the start of its process, or of its engine anew, until it may
    work, and while a model is loaded with nothing else to do. idle: the rest. All of it is paid."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    schema_version: Literal[1] = 1
    pool: str = Field(min_length=1, max_length=200)
    consumer: str = Field(min_length=1, max_length=200, description="Of one process; drawn anew at each start.")
    hour: AwareDatetime = Field(description="Its beginning.")
    busy_seconds: Seconds = 0.0
    loading_seconds: Seconds = 0.0
    idle_seconds: Seconds = 0.0
    at: AwareDatetime = Field(description="Up to here it is counted, within the hour.")
    price_usd_per_hour: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        default=0.0, description="Of its pool, as it was then."
    )

    @property
    def key(self) -> bytes:
        return f"{self.pool}/{self.consumer}/{self.hour:%Y-%m-%dT%H}".encode()

    @property
    def since(self) -> datetime:
        """From when on the hour is counted: its beginning, or the process's."""
        return max(self.hour, self.at - timedelta(seconds=sum(map(self.seconds, STATES))))

    def seconds(self, state: State) -> float:
        found: float = getattr(self, f"{state}_seconds")
        return found


def decode_uptime(data: bytes) -> Uptime:
    """Raises Undecodable on anything else, a later version included."""
    return read_event(Uptime, data, "uptime")
