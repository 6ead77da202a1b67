"""What drawing a prompt set came to."""

from collections.abc import Sequence

from gpu_consumer.compare.figures import Figures, figures
from gpu_consumer.engine.protocol import Ended, Flaw, Picture, Share
from tests.unit.gpu_consumer.work import config

CONFIG = config(price={"gpu_seconds": 0.2, "vram_bytes": 64 << 20})
GOOD = Picture("k", b"", "image/png", "png", 64, 64, 4)


def ended(*shares: Share, bad: int = 0) -> Sequence[Ended]:
    outcomes = [Flaw("k", "blank_output", "blank") if n < bad else GOOD for n in range(len(shares))]
    return [Ended("k", outcome, share) for outcome, share in zip(outcomes, shares, strict=True)]


def measured(usd_per_hour: float | None = 3.6, peak: int = 300 << 20, bad: int = 0) -> Figures:
    shares = (
        Share({"load": 0.5, "denoise": 1.0}, 1.0, peak, bucket=4),
        Share({"load": 0.5, "denoise": 1.0}, 3.0, peak // 2, bucket=2),
    )
    return figures(CONFIG, ended(*shares, bad=bad), 2.5, usd_per_hour)


def test_costs_are_those_of_all_pictures() -> None:
    found = measured()
    assert (found.pictures, found.failed, found.bucket, found.load_seconds) == (2, 0, 2, 1.0)
    assert found.gpu_seconds_a_picture == 2.0
    assert found.peak_bytes == 300 << 20
    assert found.usd_a_thousand is not None
    assert round(found.usd_a_thousand, 9) == 2.0, "2 GPU-seconds x 1000 at 3.6 an hour"


def test_figures_read_as_sentences() -> None:
    assert measured(bad=1).lines() == [
        "2 pictures in 2.5 s, 1.0 s of them for loading, 2 at once; 1 FAILED",
        "2 GPU-seconds a picture; its file says 0.2",
        "300 MiB of the device at its peak, weights and all 2; its file says 64 a picture beside the weights",
        f"2 USD a thousand pictures in pool {CONFIG.pool}, at 3.6 an hour",
    ]
    lines = measured(usd_per_hour=None, peak=0).lines()
    assert lines[2] == "this device does not tell its peak of memory; its file says 64 a picture beside the weights"
    assert lines[3] == f"pool {CONFIG.pool} is not declared, so its price is not known"
