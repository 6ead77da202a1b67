"""What one item cost: its part of every stage it was in, over all its tries. No torch."""

from dataclasses import dataclass, field

from gpu_consumer.engine.protocol import Share

GPU_STAGES = ("text", "denoise", "decode")


@dataclass(slots=True)
class Bill:
    """Grows while its item is in the engine. A stage's seconds are shared evenly among those who were in it."""

    timings: dict[str, float] = field(default_factory=dict)
    peak_bytes: int = 0
    bucket: int | None = None
    _steps: int = 0
    _company: int = 0

    def charge(self, stage: str, seconds: float) -> None:
        self.timings[stage] = self.timings.get(stage, 0.0) + seconds

    def stepped(self, company: int) -> None:
        """One step with `company` pictures in the batch, this one included."""
        self._steps += 1
        self._company += company

    def ran_in(self, bucket: int) -> None:
        """It is in a batch that is padded to `bucket`."""
        self.bucket = bucket if self.bucket is None else min(self.bucket, bucket)

    def saw(self, peak_bytes: int) -> None:
        self.peak_bytes = max(self.peak_bytes, peak_bytes)

    @property
    def gpu_seconds(self) -> float:
        return sum(self.timings.get(stage, 0.0) for stage in GPU_STAGES)

    def share(self) -> Share:
        return Share(
            timings=dict(self.timings),
            gpu_seconds=self.gpu_seconds,
            peak_vram_bytes=self.peak_bytes,
            batch_size=max(1, round(self._company / self._steps)) if self._steps else 1,
            bucket=self.bucket or 1,
        )
