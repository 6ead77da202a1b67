"""Settings of the card's telemetry."""

from typing import Annotated, Any, Self

from pydantic import Field, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from gpu_consumer.gpu.health import CARD_XIDS, FAULTS, Fault

Seconds = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]


class GpuTelemetrySettings(BaseSettings):
    """Environment variables have the prefix KILN_GPU_TELEMETRY_. Lists are separated by commas."""

    model_config = SettingsConfigDict(env_prefix="KILN_GPU_TELEMETRY_", frozen=True)

    device: str = Field(
        default="",
        pattern=r"^((GPU|MIG)-[0-9A-Za-z/-]+|([0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])?$",
        description="UUID of the card or MIG slice, or PCI id of the card. Empty: what CUDA_VISIBLE_DEVICES says.",
    )
    every_seconds: Annotated[float, Field(ge=0.1, le=60)] = Field(default=1, description="From sample to sample.")
    window_seconds: Seconds = Field(
        default=60,
        description="A peak is the highest sample of so many seconds. At least the scrape interval, so that each of "
        "any number of scrapers sees every peak.",
    )
    stale_seconds: Seconds = Field(
        default=10, description="A sample older than that is not shown: NVML hangs, as while a driver recovers."
    )
    retry_seconds_max: Seconds = Field(
        default=30, description="The longest wait between tries to open an NVML that is missing or unwell."
    )
    unready_on: Annotated[frozenset[Fault], NoDecode] = Field(
        default=frozenset(FAULTS),
        description="Faults of the card that make this consumer not ready: " + ", ".join(FAULTS) + ". Empty for none.",
    )
    xids: Annotated[frozenset[Annotated[int, Field(ge=1, le=9999)]], NoDecode] = Field(
        default=frozenset(CARD_XIDS),
        description="The Xid events that are the card's fault. Those that a program can cause are not among them.",
    )
    xid_seconds: Annotated[float, Field(gt=0, le=31_536_000)] = Field(
        default=86_400, description="How long such an event counts: unlike the other faults it leaves no state to read."
    )

    @field_validator("unready_on", "xids", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value

    @model_validator(mode="after")
    def _relations(self) -> Self:
        if self.every_seconds > self.window_seconds:
            raise ValueError("window_seconds is below every_seconds; raise it to the scrape interval")
        if self.every_seconds >= self.stale_seconds:
            raise ValueError("stale_seconds must be above every_seconds")
        return self
