"""Whether traces are made, and by what."""

from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from schemas.errors import CommandError
from schemas.settings import read_settings
from streams.tracing import OFF, Tracing


class TracingSettings(BaseSettings):
    """Where spans go is said by OpenTelemetry's own variables, OTEL_*; the environment is read here and by its SDK."""

    model_config = SettingsConfigDict(env_prefix="KILN_", frozen=True)

    traces: Literal["off", "otlp"] = Field(
        default="off",
        description="otlp: spans by OTLP over HTTP, as the OTEL_ variables say. Needs the extra `traces`.",
    )


def open_tracing(service: str) -> Tracing:
    """As KILN_TRACES says. Raises CommandError where it is on and OpenTelemetry is not installed."""
    if read_settings(TracingSettings).traces == "off":
        return OFF
    try:
        from streams.otel import to_collector
    except ImportError as error:
        raise CommandError(f"KILN_TRACES is otlp, and {error.name} is missing; install promptkiln[traces]") from error
    return to_collector(service)
