"""Settings of the gate."""

from typing import Annotated

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from streams.metric import SEEN_SECONDS


class GateSettings(BaseSettings):
    """How requests pass. The environment is read here and nowhere else."""

    model_config = SettingsConfigDict(env_prefix="KILN_GATE_", frozen=True)

    batch_max: Annotated[int, Field(ge=1, le=5000)] = Field(
        default=500, description="Requests on their way at once; the next are sent when these are acknowledged."
    )
    send_timeout_seconds: Annotated[float, Field(gt=0, le=300)] = Field(
        default=20.0, description="What is not acknowledged by then is sent again by a new producer."
    )
    send_backoff_seconds_max: Annotated[float, Field(gt=0, le=600)] = 10.0
    stop_grace_seconds: Annotated[float, Field(gt=0, le=300)] = Field(
        default=25.0, description="From SIGTERM to the end of the process; below the pod's grace period."
    )
    stall_seconds: Annotated[float, Field(gt=0, le=3600)] = Field(
        default=60.0, description="Lag without progress for so long, and without a named wait, is not alive."
    )
    refresh_seconds: Annotated[float, Field(gt=0, le=SEEN_SECONDS / 2)] = Field(
        default=5.0, description="Lag is looked at this often."
    )
    health_host: str = Field(default="127.0.0.1", description="0.0.0.0 in a pod.")
    health_port: Annotated[int, Field(ge=0, le=65_535)] = Field(default=8083, description="0 takes a free port.")
