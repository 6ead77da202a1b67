"""Settings of a GPU consumer. The environment is read here, in KafkaSettings, StoreSettings and DeploymentSettings."""

import importlib.util
import sys
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from gpu_consumer.engine.settings import EngineSettings
from gpu_consumer.gpu.nvml import Nvml, NvmlUnavailable
from schemas.request import LANE_WEIGHTS, LANES, Lane

Seconds = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]


class GpuConsumerSettings(BaseSettings):
    """One process, one GPU or MIG slice. Environment variables have the prefix KILN_GPU_."""

    model_config = SettingsConfigDict(env_prefix="KILN_GPU_", frozen=True)

    pool: Annotated[str, Field(pattern=r"^[a-z0-9-]{1,40}$")] = Field(
        default="default", description="The pool whose work this consumer takes."
    )
    engine: Literal["process", "instant"] = Field(
        default="process", description="instant makes pictures in no time, for tests and for measuring the pipeline."
    )
    device: Literal["auto", "cpu", "cuda"] = Field(
        default="auto", description="auto takes the first visible card, and the CPU where the driver finds none."
    )
    device_memory_bytes: Annotated[int, Field(ge=1 << 20)] = Field(
        default=8 << 30, description="What the CPU device pretends to have; beyond it, it is out of memory."
    )
    gpu_memory_fraction: Annotated[float, Field(gt=0, le=1)] = Field(
        default=1.0,
        description="The part of the card that this process may have; beyond it, it is out of memory.",
    )
    model_cache_bytes: Annotated[int, Field(ge=0)] | None = Field(
        default=None,
        description="Weights kept on the device, the least recently used dropped first; unset: half of the device.",
    )
    host_cache_bytes: Annotated[int, Field(ge=0)] = Field(
        default=0,
        description="Weights dropped from the device and kept by the host, pinned: back by a copy, not a load.",
    )
    observe_seconds: Seconds = Field(
        default=30, description="How often what batches took is told to other consumers of the same device."
    )
    uptime_seconds: Seconds = Field(
        default=60,
        description="How often is told how long it was busy and idle; what a kill leaves untold is unbilled.",
    )
    progress_seconds: Annotated[float, Field(ge=0, le=3600, allow_inf_nan=False)] = Field(
        default=1,
        description="How often at most is told in topic progress how far a job is; one that takes less is told nothing "
        "of. 0: never.",
    )
    profile_steps_max: Annotated[int, Field(ge=0, le=10_000)] = Field(
        default=200, description="The longest trace that the health port gives; 0 gives none."
    )
    profile_seconds_max: Seconds = Field(default=120, description="How long a trace waits for its steps to be made.")
    models_dir: Path = Field(default=Path(".kiln/models"), description="A folder a model, as save_pretrained writes.")
    preload: str = Field(
        default="stable",
        description="Loaded and warmed before the group is joined: NAME, NAME@VERSION or NAME:CHANNEL by commas; "
        "`stable` for the stable versions of each config of this pool; empty for none.",
    )
    threads: Annotated[int, Field(ge=1, le=256)] = Field(
        default=1, description="CPU threads of the engine. Fixed, for the sums of a picture depend on how they split."
    )
    workers: Annotated[int, Field(ge=1, le=4)] = Field(
        default=1,
        description="Engine processes on the device. They share the weights of the preload list, which then stay; each "
        "runs a batch of its own. Above 1: Linux only.",
    )
    engine_start_seconds_max: Seconds = Field(default=900, description="From spawn until loaded and warm.")
    engine_watchdog_seconds_min: Annotated[float, Field(ge=3, le=86_400)] = Field(
        default=30, description="An engine without a sign of life for so long, and for ten of its steps, is killed."
    )
    engine_encode_seconds_max: Seconds = Field(
        default=300, description="An engine that encodes one picture or video for longer than this is ended."
    )
    engine_deaths_max: Annotated[int, Field(ge=1, le=100)] = Field(
        default=3, description="A job whose batches killed the engine so often has failed; from the second it is alone."
    )
    consumer_deaths_max: Annotated[int, Field(ge=1, le=1000)] = Field(
        default=10, description="A job found unfinished so often after a consumer's death has failed."
    )
    restarts_per_hour_max: Annotated[int, Field(ge=1, le=1000)] = Field(
        default=10, description="More engine restarts within an hour: not ready, and the process ends with status 3."
    )

    batch_wait_seconds: Annotated[float, Field(ge=0, le=600)] = Field(
        default=0.25,
        description="How long the first picture of a batch that runs whole waits for company. Those that join at any "
        "step never wait.",
    )
    backlog_max: Annotated[int, Field(ge=1, le=100_000)] = Field(
        default=512, description="Pictures of one lane taken and not settled; then its partitions are paused."
    )
    run_ahead_max: Annotated[int, Field(ge=1, le=65_536)] = Field(
        default=2048, description="Offsets that may be worked on beyond the first that is not finished."
    )
    settling_max: Annotated[int, Field(ge=1, le=100_000)] = Field(
        default=256, description="Pictures that run or are not settled yet; beyond it nothing is claimed."
    )
    claim_seconds: Annotated[float, Field(ge=0, le=60)] = Field(
        default=0.1,
        description="Pictures that are expected to run within so many seconds are claimed ahead, for a claim takes "
        "some 30 ms during which the engine would idle.",
    )
    ahead_slots: Annotated[int, Field(ge=0, le=256)] = Field(
        default=0,
        description="Pictures that are sent beyond the slots, so that a free one is taken at once; 0: a quarter of the "
        "bucket, at least 1.",
    )
    ahead_batches_max: Annotated[int, Field(ge=1, le=256)] = Field(
        default=16, description="No more than so many buckets are sent ahead, however quick pictures are."
    )
    lane_weights: dict[Lane, Annotated[float, Field(gt=0, le=1_000_000)]] = Field(
        default=dict(LANE_WEIGHTS), description="GPU time of the lanes when all of them wait, in proportion."
    )
    affinity_wait_seconds: Annotated[float, Field(ge=0, le=3600)] = Field(
        default=5,
        description="For so long pictures of what runs or is loaded may pass the one whose turn it is. About ten times "
        "what loading a model takes, where a pool serves more models than a GPU holds.",
    )
    look_ahead: Annotated[int, Field(ge=0, le=100_000)] = Field(
        default=256, description="So many pictures may pass it meanwhile."
    )
    mark_seconds_min: Seconds = Field(
        default=5, description="A mark is believed at least so long after its batch began, by whoever takes over."
    )
    mark_factor: Annotated[float, Field(ge=1, le=100)] = Field(
        default=3, description="A batch's expected end is its expected run time times this."
    )
    mark_poll_seconds: Seconds = Field(
        default=1, description="How often the outcome of a job that may be running elsewhere is looked up."
    )
    hold_retry_seconds: Seconds = Field(default=60, description="When a job that is held is looked at again.")

    store_threads: Annotated[int, Field(ge=1, le=256)] = Field(default=8, description="Calls of the store at once.")
    store_backoff_seconds_min: Seconds = 0.1
    store_backoff_seconds_max: Seconds = 30
    reopen_seconds_max: Seconds = Field(
        default=120, description="An index we have and cannot open for so long ends the process, so that another tries."
    )
    hand_over_seconds: Annotated[float, Field(ge=0, le=10)] = Field(
        default=0.25,
        description="An index that another consumer had until now is opened so much later: that one may first clear "
        "the marks of what it will not make, for which this one would wait.",
    )
    poll_seconds: Annotated[float, Field(gt=0, le=5)] = Field(
        default=0.1, description="The longest wait for records before pauses are looked at again."
    )
    poll_records_max: Annotated[int, Field(ge=1, le=10_000)] = Field(
        default=500, description="Records taken from the client at once; decoding them blocks the loop."
    )
    idle_seconds: Seconds = Field(default=2, description="How often an idle lane looks for markers at its end.")
    control_wait_seconds: Annotated[float, Field(ge=0, le=600)] = Field(
        default=10,
        description="At its start a consumer waits so long for what control says of pauses; then it works without.",
    )
    progress_timeout_seconds: Seconds = Field(
        default=120, description="Lag, nothing in flight, no progress and no named wait for so long: the process ends."
    )
    grace_seconds: Seconds = Field(default=25, description="From SIGTERM to the end; below the pod's grace period.")
    close_seconds: Seconds = Field(
        default=5, description="The part of the grace kept for handing back, leaving the group and closing."
    )
    pod_name: str | None = Field(default=None, description="In Kubernetes: this pod's name and its namespace.")
    namespace: str | None = None
    service_account_dir: Path = Field(
        default=Path("/var/run/secrets/kubernetes.io/serviceaccount"),
        description="The token by which the pod may say what its end would cost, and the authority of the API server.",
    )
    deletion_cost_seconds: Annotated[float, Field(ge=1, le=3600)] = Field(
        default=10, description="It says so this often at most, and only where it has changed by a fifth."
    )
    health_host: str = Field(default="127.0.0.1", description="0.0.0.0 in a pod.")
    health_port: Annotated[int, Field(ge=0, le=65_535)] = Field(default=8082, description="0 takes a free port.")

    @model_validator(mode="after")
    def _relations(self) -> Self:
        if self.workers > 1 and sys.platform != "linux":
            raise ValueError("workers above 1 share their weights as only Linux can; set it to 1")
        if self.close_seconds >= self.grace_seconds:
            raise ValueError("close_seconds must be below grace_seconds, which covers it")
        if self.store_backoff_seconds_min > self.store_backoff_seconds_max:
            raise ValueError("store_backoff_seconds_min is above store_backoff_seconds_max; lower it")
        if missing := [lane for lane in LANES if lane not in self.lane_weights]:
            raise ValueError(f"lane_weights has no weight for {', '.join(missing)}; give each lane one above 0")
        if self.backlog_max > self.run_ahead_max * 1024:
            raise ValueError("backlog_max is above what run_ahead_max lets in; lower it")
        return self

    def engine_settings(self) -> EngineSettings:
        return EngineSettings(
            models_directory=self.models_dir,
            device=self._device(),
            threads=self.threads,
            cpu_memory_bytes=self.device_memory_bytes,
            gpu_memory_fraction=self.gpu_memory_fraction,
            model_cache_bytes=self.model_cache_bytes,
            host_cache_bytes=self.host_cache_bytes,
            start_seconds_max=self.engine_start_seconds_max,
            watchdog_seconds_min=self.engine_watchdog_seconds_min,
            encode_seconds_max=self.engine_encode_seconds_max,
        )

    def _device(self) -> Literal["cpu", "cuda"]:
        """Without torch, which only the engine imports: the driver's own library tells whether there is a card."""
        if self.device != "auto":
            return self.device
        if importlib.util.find_spec("pynvml") is None:
            return "cuda" if Path("/dev/nvidiactl").exists() else "cpu"
        try:
            nvml = Nvml.open()
        except NvmlUnavailable:
            return "cpu"
        try:
            return "cuda" if nvml.card_handles() else "cpu"
        except NvmlUnavailable:
            return "cpu"
        finally:
            nvml.close()
