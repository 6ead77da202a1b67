"""When somebody is told: what alert rules are rendered with. Objectives of a pool stand in pools.yaml."""

from typing import Annotated

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

Ratio = Annotated[float, Field(gt=0, lt=1)]


class AlertSettings(BaseSettings):
    """Environment variables have the prefix KILN_ALERT_."""

    model_config = SettingsConfigDict(env_prefix="KILN_ALERT_", frozen=True)

    runbooks: str = Field(
        default="docs/runbooks",
        min_length=1,
        description="Where the alerts' pages are: a folder, or its address.",
    )
    vram_ratio_max: Ratio = Field(
        default=0.85,
        description="Of a device's memory, for ten minutes. Sessions get up to 0.9 of what is free.",
    )
    stalled_seconds: Annotated[int, Field(ge=1, le=86_400)] = Field(
        default=45, description="Work and no progress for so long; before a process ends itself for it."
    )
    rejected_ratio_max: Ratio = Field(default=0.2, description="Of the requests decided in ten minutes.")
    rejected_min: Annotated[int, Field(ge=1)] = Field(
        default=20, description="Fewer rejections in ten minutes are one client's typing errors."
    )
    failed_ratio_max: Ratio = Field(default=0.05, description="Of the jobs that ran in fifteen minutes.")
    failed_min: Annotated[int, Field(ge=1)] = Field(
        default=3, description="Fewer failures in fifteen minutes are one bad request, sent again."
    )
    swaps_per_hour_max: Annotated[float, Field(gt=0)] = Field(
        default=20.0, description="Models loaded by one consumer: each costs seconds in which it draws nothing."
    )
    engine_restarts_per_hour_max: Annotated[float, Field(ge=0)] = Field(
        default=3.0, description="Below KILN_GPU_RESTARTS_PER_HOUR_MAX, at which the consumer gives up."
    )
    process_restarts_per_hour_max: Annotated[float, Field(ge=0)] = Field(
        default=3.0, description="Under one address: a rollout has a new one for each pod."
    )
    dead_letters_max: Annotated[int, Field(ge=0)] = Field(default=0, description="In fifteen minutes.")
    view_age_seconds_max: Annotated[float, Field(gt=0)] = Field(
        default=60.0, description="What is followed was not heard of for so long."
    )
    unstable_seconds_max: Annotated[float, Field(gt=0)] = Field(
        default=60.0, description="A last stable offset that stands. Above KAFKA_TRANSACTION_TIMEOUT_MS several times."
    )
    burn_jobs_min: Annotated[int, Field(ge=1)] = Field(
        default=20, description="Fewer jobs in the longer window say nothing of the share that waits too long."
    )
