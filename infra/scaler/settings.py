"""Settings of the external scaler."""

from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict


class ScalerSettings(BaseSettings):
    """What KEDA asks and how old an answer may be. The environment is read here and nowhere else."""

    model_config = SettingsConfigDict(env_prefix="KILN_SCALER_", frozen=True)

    host: str = Field(default="127.0.0.1", description="Where KEDA's gRPC comes in; 0.0.0.0 in a pod.")
    port: Annotated[int, Field(ge=0, le=65_535)] = Field(default=8085, description="0 takes a free port.")
    tls_certfile: Path | None = Field(
        default=None, description="Our certificate chain, for ScaledObjects with enableTLS; without one in the clear."
    )
    tls_keyfile: Path | None = Field(default=None, description="The key of that certificate.")
    calls_max: Annotated[int, Field(ge=8, le=100_000)] = Field(
        default=1000, description="Calls at once, push streams not among them; the next are refused."
    )
    streams_max: Annotated[int, Field(ge=1, le=100_000)] = Field(
        default=1000,
        description="Push streams at once: one of each ScaledObject, and of each operator of KEDA that runs.",
    )
    look_seconds: Annotated[float, Field(gt=0, le=60)] = Field(
        default=1.0, description="How often the groups' offsets and the ends of their partitions are looked at."
    )
    count_seconds: Annotated[float, Field(gt=0, le=60)] = Field(
        default=0.2, description="News are summed up this often at most; the first work of a pool at rest at once."
    )
    age_seconds_max: Annotated[float, Field(gt=0, le=3600)] = Field(
        default=60.0,
        description="A value that nothing renews is told for so long; then KEDA hears that there is none.",
    )
    items_max: Annotated[int, Field(ge=1, le=10_000_000)] = Field(
        default=100_000, description="Records of a pool's work remembered one by one; beyond it each is the usual one."
    )
    stop_grace_seconds: Annotated[float, Field(gt=0, le=300)] = Field(
        default=5.0, description="From SIGTERM to the end of the calls under way."
    )
    health_host: str = Field(default="127.0.0.1", description="0.0.0.0 in a pod.")
    health_port: Annotated[int, Field(ge=0, le=65_535)] = Field(default=8084, description="0 takes a free port.")

    @model_validator(mode="after")
    def _relations(self) -> Self:
        if (self.tls_certfile is None) != (self.tls_keyfile is None):
            raise ValueError("tls_certfile and tls_keyfile go together; give both")
        if self.look_seconds * 2 > self.age_seconds_max:
            raise ValueError("age_seconds_max is below two looks; raise it")
        return self
