"""What drawing a prompt set with one configuration came to. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from gpu_consumer.engine.protocol import Ended, Picture
from schemas.config import GenerationConfig
from schemas.counted import counted

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Figures:
    """`seconds` of the wall clock, `load_seconds` of it. `peak_bytes`: None where the device does not tell.

    `usd_per_hour` is what a GPU of the config's pool costs; None where the pool is not declared.
    """

    config: GenerationConfig
    pictures: int
    failed: int
    bucket: int
    seconds: float
    load_seconds: float
    gpu_seconds: float
    peak_bytes: int | None
    usd_per_hour: float | None

    @property
    def gpu_seconds_a_picture(self) -> float:
        return self.gpu_seconds / self.pictures

    @property
    def usd_a_thousand(self) -> float | None:
        return None if self.usd_per_hour is None else self.gpu_seconds_a_picture * 1000 * self.usd_per_hour / 3600

    def lines(self) -> list[str]:
        """For people, the most wanted first."""
        load = f", {self.load_seconds:.1f} s of them for loading" if self.load_seconds >= 0.05 else ""
        cost = self.usd_a_thousand
        pool = self.config.pool
        declared = self.config.price
        return [
            f"{counted(self.pictures, 'picture')} in {self.seconds:.1f} s{load}, {self.bucket} at once"
            + (f"; {self.failed} FAILED" if self.failed else ""),
            f"{self.gpu_seconds_a_picture:.3g} GPU-seconds a picture; its file says {declared.gpu_seconds:g}",
            (
                f"{self.peak_bytes / _MIB:,.0f} MiB of the device at its peak, weights and all {self.bucket}"
                if self.peak_bytes is not None
                else "this device does not tell its peak of memory"
            )
            + f"; its file says {declared.vram_bytes / _MIB:,.0f} a picture beside the weights",
            f"pool {pool} is not declared, so its price is not known"
            if cost is None
            else f"{cost:.3g} USD a thousand pictures in pool {pool}, at {self.usd_per_hour:g} an hour",
        ]


def figures(config: GenerationConfig, ended: Sequence[Ended], seconds: float, usd_per_hour: float | None) -> Figures:
    """Of all items of a prompt set, at least one."""
    shares = [one.share for one in ended]
    drawn = [one.outcome for one in ended if isinstance(one.outcome, Picture)]
    return Figures(
        config=config,
        pictures=len(ended),
        failed=len(ended) - len(drawn),
        bucket=min(share.bucket for share in shares),
        seconds=seconds,
        load_seconds=sum(share.timings.get("load", 0.0) for share in shares),
        gpu_seconds=sum(share.gpu_seconds for share in shares),
        peak_bytes=max(share.peak_vram_bytes for share in shares) or None,
        usd_per_hour=usd_per_hour,
    )
