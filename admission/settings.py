"""Every limit of admission. The host reads them once; decisions get them with the world."""

from typing import Annotated, Literal

from pydantic import Field, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from schemas.pools import WaitSeconds
from schemas.request import LANE_WEIGHTS, LANES, Lane
from schemas.topics import REQUEST_BYTES_MAX

_DAY_SECONDS = 86_400


class AdmissionLimits(BaseSettings):
    """What a request may be. Every admission process of a deployment must have the same."""

    model_config = SettingsConfigDict(env_prefix="KILN_ADMISSION_", frozen=True)

    prompt_code_points_max: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        default=2000, description="A text encoder reads some 77 to 512 tokens; more only costs."
    )
    prompt_bytes_max: Annotated[int, Field(ge=1, le=REQUEST_BYTES_MAX)] = Field(
        default=8000, description="Of the prompt in UTF-8: 4 bytes a code point at the worst."
    )
    negative_prompt_code_points_max: Annotated[int, Field(ge=0, le=1_000_000)] = 2000
    negative_prompt_bytes_max: Annotated[int, Field(ge=0, le=REQUEST_BYTES_MAX)] = 8000
    unseen_run_max: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        default=30,
        description="Marks and characters that cannot be seen, in a row: as many as Unicode's stream-safe text has "
        "(UAX 15), and more than any language needs.",
    )
    metadata_entries_max: Annotated[int, Field(ge=0, le=1024)] = 16
    metadata_key_bytes_max: Annotated[int, Field(ge=1, le=4096)] = 64
    metadata_value_bytes_max: Annotated[int, Field(ge=0, le=65_536)] = 512
    headers_max: Annotated[int, Field(ge=0, le=10_000)] = Field(default=32, description="Headers of one record.")
    headers_bytes_max: Annotated[int, Field(ge=0, le=REQUEST_BYTES_MAX)] = Field(
        default=16 << 10, description="Of all header names and values of one record."
    )
    record_bytes_max: Annotated[int, Field(ge=1024, le=REQUEST_BYTES_MAX)] = Field(
        default=REQUEST_BYTES_MAX, description="Of key, value and headers of one record."
    )
    images_max: Annotated[int, Field(ge=1, le=1024)] = Field(
        default=16, description="Pictures of one request, whatever its config allows."
    )
    prompt_tokens: Literal["report", "refuse"] = Field(
        default="report",
        description="A prompt that its model does not read to the end: drawn, and the result's warnings tell what was "
        "left out; or refused, where the model's tokenizer is here.",
    )
    policy_on_failure: Literal["refuse", "pass"] = Field(
        default="refuse", description="What becomes of a text on which a content policy fails."
    )
    pixels_max: Annotated[int, Field(ge=64 * 64, le=8192 * 8192)] = Field(
        default=4096 * 4096, description="Of a picture or frame, whatever its config says."
    )
    family_pixels_factor_max: Annotated[float, Field(gt=0, le=1024, allow_inf_nan=False)] = Field(
        default=16.0, description="The same, in multiples of the pixels that the config's family was made for."
    )
    frames_max: Annotated[int, Field(ge=1, le=1024)] = Field(default=256, description="Of a video.")
    video_seconds_max: Annotated[float, Field(gt=0, le=1024, allow_inf_nan=False)] = Field(
        default=60.0, description="How long a video plays."
    )
    request_pixels_max: Annotated[int, Field(ge=64 * 64, le=1 << 46)] = Field(
        default=1 << 28, description="Of all pictures and frames of a request: 16 pictures of 4096 x 4096."
    )
    dedupe_window_seconds: Annotated[int, Field(ge=1, le=30 * _DAY_SECONDS)] = Field(
        default=3600, description="How long a request's name is remembered; a repeat within it is free."
    )
    default_deadline_seconds: Annotated[int, Field(ge=1, le=365 * _DAY_SECONDS)] = Field(
        default=_DAY_SECONDS, description="Given to a request that names no deadline."
    )
    deadline_seconds_max: Annotated[int, Field(ge=1, le=365 * _DAY_SECONDS)] = Field(
        default=7 * _DAY_SECONDS, description="A later deadline is shortened to it. Below the retention of work."
    )
    clock_skew_seconds: Annotated[float, Field(ge=0, le=3600, allow_inf_nan=False)] = Field(
        default=5.0, description="How far the broker's clock may run ahead of ours before it is not believed."
    )
    outstanding_slack_seconds: Annotated[int, Field(ge=0, le=30 * _DAY_SECONDS)] = Field(
        default=3600, description="A job without a result is given up this long after its deadline."
    )
    account_idle_seconds: Annotated[int, Field(ge=0, le=365 * _DAY_SECONDS)] = Field(
        default=3600,
        description="A tenant or a key that is not listed is forgotten this long after its last request, once its "
        "meters are as good as new ones and its jobs have ended. Its counts go to the usage topic.",
    )
    price_factor_max: Annotated[float, Field(ge=1, le=1e6, allow_inf_nan=False)] = Field(
        default=10.0,
        description="A measured price counts as at most so many times the preset of its config, and as at least the "
        "same part of it. 1: presets alone.",
    )

    degrade_wait_seconds: WaitSeconds = Field(
        default=60.0,
        description="Where work waits longer for a pool, even at full scale, what may be degraded is. A pool may have "
        "its own.",
    )
    refuse_wait_seconds: WaitSeconds = Field(
        default=3600.0,
        description="Where work waits longer for a pool, even at full scale, requests are refused. A pool may have its "
        "own.",
    )
    lane_weights: dict[Lane, Annotated[float, Field(gt=0, le=1_000_000)]] = Field(
        default=dict(LANE_WEIGHTS), description="As the GPU consumers have them, for the estimate of the wait."
    )
    signature_tolerance_seconds: Annotated[int, Field(ge=1, le=_DAY_SECONDS)] = Field(
        default=900,
        description="Between the time that was signed and LogAppendTime. What counts is less than half of the dedupe "
        "window, since who sends a record again must meet its name.",
    )

    @model_validator(mode="after")
    def _the_default_deadline_is_allowed(self) -> "AdmissionLimits":
        if self.default_deadline_seconds > self.deadline_seconds_max:
            raise ValueError("default_deadline_seconds is above deadline_seconds_max; lower it")
        return self

    @model_validator(mode="after")
    def _overload(self) -> "AdmissionLimits":
        if self.degrade_wait_seconds > self.refuse_wait_seconds:
            raise ValueError("degrade_wait_seconds is above refuse_wait_seconds; lower it")
        if missing := [lane for lane in LANES if lane not in self.lane_weights]:
            raise ValueError(f"lane_weights has no weight for {', '.join(missing)}; give each lane one above 0")
        return self

    @property
    def dedupe_window_ms(self) -> int:
        return self.dedupe_window_seconds * 1000

    @property
    def account_idle_ms(self) -> int:
        return self.account_idle_seconds * 1000

    @property
    def signature_tolerance_ms(self) -> int:
        return min(self.signature_tolerance_seconds * 1000, (self.dedupe_window_ms - 1) // 2)

    @property
    def outstanding_slack_ms(self) -> int:
        return self.outstanding_slack_seconds * 1000
