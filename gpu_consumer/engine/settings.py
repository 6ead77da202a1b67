"""Settings of an engine: a part of the GPU consumer's settings."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field


class EngineSettings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    models_directory: Path = Field(
        default=Path(".kiln/models"), description="A folder a model, as save_pretrained writes."
    )
    device: str = Field(
        default="cpu",
        pattern=r"^(cpu|cuda|[A-Za-z_][\w.]*:[A-Za-z_]\w*)$",
        description="cuda takes the first visible card or MIG slice; module:callable, given these settings, makes one.",
    )
    threads: int = Field(
        default=1,
        ge=1,
        le=256,
        description="CPU threads of torch. Fixed, because the sums of a picture depend on how they are split.",
    )
    workers: int = Field(
        default=1, ge=1, le=4, description="Processes that share the device, of which the engine is one."
    )
    cpu_memory_bytes: int = Field(
        default=8 << 30, ge=1 << 20, description="What the CPU device pretends to have; beyond it, it is out of memory."
    )
    gpu_memory_fraction: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="Of the card's memory, what its workers may take together; the rest is for others.",
    )
    model_cache_bytes: int | None = Field(
        default=None,
        ge=0,
        description="Weights kept on the device, the model in use aside; the least recently used leaves first. None: "
        "half of the device's memory. Batches come first: room for them is made when it is needed.",
    )
    host_cache_bytes: int = Field(
        default=0,
        ge=0,
        description="Weights kept in page-locked host memory when they leave the device: coming back is then a copy.",
    )
    start_seconds_max: float = Field(
        default=900, gt=0, description="From spawn until loaded and warm; then it is killed."
    )
    watchdog_seconds_min: float = Field(
        default=30,
        gt=0,
        description="An engine that gives no sign of life for so long, and for ten of its steps, is killed.",
    )
    encode_seconds_max: float = Field(
        default=300, gt=0, description="Until a picture or a video that is drawn is encoded; then the engine ends."
    )
    stop_seconds_max: float = Field(default=5, ge=0, description="Until an engine that does not end is killed.")
