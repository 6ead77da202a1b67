"""Settings of the admission service. Limits of what may enter are admission's; the broker is KafkaSettings'."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from admission.placement import Bounds
from streams.metric import SEEN_SECONDS


class AdmissionServiceSettings(BaseSettings):
    """How decisions flow. The environment is read here and nowhere else."""

    model_config = SettingsConfigDict(env_prefix="KILN_ADMISSION_SERVICE_", frozen=True)

    intake: Literal["faust", "plain"] = Field(
        default="faust", description="What takes requests from Kafka: a Faust app, or a plain aiokafka consumer."
    )
    batch_max: Annotated[int, Field(ge=1, le=5000)] = Field(
        default=1000,
        description="Requests a transaction. A transaction costs much the same for 1 or 1,000.",
    )
    batch_bytes_max: Annotated[int, Field(ge=1 << 10, le=64 << 20)] = Field(
        default=4 << 20,
        description="Of the requests of one transaction: a MiB of the worst JSON blocks the loop for half a second.",
    )
    batch_wait_seconds: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0,
        description="How long a batch that is not full waits for more after its first request; where many come, they "
        "gather while the former is written and rests.",
    )
    batch_spacing_seconds: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.025,
        description="A batch that is not full waits until the former transaction is so old: each costs the broker much "
        "the same for 1 or 1,000 requests, and one that follows at once has to wait for the markers of the former.",
    )
    queue_max: Annotated[int, Field(ge=1, le=100_000)] = Field(
        default=2000, description="Requests a partition that are taken and not decided; then the intake waits."
    )
    queue_bytes_max: Annotated[int, Field(ge=1 << 10, le=1 << 30)] = Field(
        default=16 << 20, description="The same in bytes; a record larger than this is taken alone."
    )
    idle_seconds: Annotated[float, Field(gt=0, le=60)] = Field(
        default=0.25,
        description="An owner without requests looks at its log's end and at results this often.",
    )
    reopen_backoff_seconds_min: Annotated[float, Field(gt=0, le=60)] = 0.1
    reopen_backoff_seconds_max: Annotated[float, Field(gt=0, le=600)] = 30.0
    reopen_seconds_max: Annotated[float, Field(gt=0, le=3600)] = Field(
        default=120.0,
        description="A partition we have and cannot open for so long ends the process, so that another may try.",
    )
    emission_timeout_seconds: Annotated[float, Field(gt=0, le=300)] = Field(
        default=20.0, description="An emission not acknowledged by then is repeated by a new producer."
    )
    emission_backoff_seconds_max: Annotated[float, Field(gt=0, le=600)] = 10.0
    revoke_grace_seconds: Annotated[float, Field(gt=0, le=300)] = Field(
        default=10.0, description="A batch under way when its partition is revoked may take so long to end."
    )
    stop_grace_seconds: Annotated[float, Field(gt=0, le=300)] = Field(
        default=25.0, description="From SIGTERM to the end of the process; below the pod's grace period."
    )
    stall_seconds: Annotated[float, Field(gt=0, le=3600)] = Field(
        default=60.0, description="Lag without progress for so long, and without a named wait, is not alive."
    )
    refresh_seconds: Annotated[float, Field(gt=0, le=SEEN_SECONDS / 2)] = Field(
        default=5.0,
        description="Topics, lag, the ages of views, signing keys and lists of terms are looked at this often.",
    )
    signing_keys: Path | None = Field(
        default=None,
        description="A folder with a file <tenant>/<key id> for each secret by which tenants sign; read again when "
        "they change.",
    )
    demand_seconds: Annotated[float, Field(gt=0, le=60)] = Field(
        default=2.0, description="What waits in a partition is told to the others this often, if it has changed."
    )
    demand_seconds_max: Annotated[float, Field(gt=0, le=3600)] = Field(
        default=60.0,
        description="What was told longer ago is not believed, and not counted. An idle partition says so four times "
        "within it.",
    )
    demand_mean_seconds: Annotated[float, Field(gt=0, le=86_400)] = Field(
        default=300.0, description="The GPU-seconds that come a second are a mean over about so long."
    )
    demand_units_max: Annotated[int, Field(ge=1, le=10_000)] = Field(
        default=64,
        description="Configurations whose rates a partition tells, some 110 bytes each; of the others one sum a model.",
    )
    placing_seconds: Annotated[float, Field(gt=0, le=86_400)] = Field(
        default=60.0, description="Where models' work goes is thought over this often, by the owner of requests[0]."
    )
    placing_moves_max: Annotated[int, Field(ge=1, le=10_000)] = Field(
        default=16, description="So many configurations may move to another partition each time."
    )
    placing_tolerance: Annotated[float, Field(ge=0.01, le=1)] = Field(
        default=0.05, description="How far above the mean a partition's work may be before something moves."
    )
    renew_offsets_seconds: Annotated[float, Field(ge=60, le=366 * 86_400)] = Field(
        default=21_600.0,
        description="The offsets of pools that sleep are kept by the broker if they are renewed: this often, by the "
        "owner of requests[0]. The broker's offsets.retention.minutes must be at least four times as long.",
    )
    health_host: str = Field(default="127.0.0.1", description="0.0.0.0 in a pod.")
    health_port: Annotated[int, Field(ge=0, le=65535)] = Field(default=8081, description="0 takes a free port.")
    policy_slow_seconds: Annotated[float, Field(gt=0, le=60)] = Field(
        default=0.05, description="A content policy that takes longer for a text is logged: every request waits for it."
    )
    tokenizers: Path = Field(
        default=Path(".kiln/models"),
        description="A folder a model with its tokenizers, as the GPU consumers have it; weights are not read. Read at "
        "the start and when configurations change, where KILN_ADMISSION_PROMPT_TOKENS is refuse.",
    )
    accept_loss: bool = Field(
        default=False,
        description="Start although the log lost what an opening needs. Requests may be decided twice or never.",
    )

    @property
    def placing_bounds(self) -> Bounds:
        return Bounds(tolerance=self.placing_tolerance, moves_max=self.placing_moves_max)

    @model_validator(mode="after")
    def _relations(self) -> "AdmissionServiceSettings":
        if self.reopen_backoff_seconds_min > self.reopen_backoff_seconds_max:
            raise ValueError("reopen_backoff_seconds_min is above reopen_backoff_seconds_max; lower it")
        if self.revoke_grace_seconds >= self.stop_grace_seconds:
            raise ValueError("revoke_grace_seconds must be below stop_grace_seconds, which covers it")
        if self.demand_seconds_max < 8 * self.demand_seconds:
            raise ValueError("demand_seconds_max is below 8 x demand_seconds, raise it; some may be lost")
        return self
