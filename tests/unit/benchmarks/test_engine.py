"""bench-engine sees a picture that is not stock's, and finds none where both draw alike."""

from pathlib import Path
from typing import Any

import pytest
import torch

from gpu_consumer.engine.stepwise.request import Shape
from gpu_consumer.models.families import fresh_scheduler
from tests.benchmarks.engine import pictures
from tests.benchmarks.engine.alike import alike
from tests.benchmarks.engine.pictures import Drawer, request
from tests.stepwise import FRAMES, fresh
from tests.tiny import models

__all__ = ["models"]


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
@pytest.mark.parametrize(("family", "scheduler"), [("sd3", "flow-match-euler"), ("sd15", "euler")])
def test_what_both_draw_alike_is_found_alike_and_nothing_else(
    models: Path, family: str, scheduler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawer = Drawer(fresh(models, family), Shape(64, 64, 2))
    found = alike(family, drawer, [scheduler])
    assert all(measure.met for measure in found.values())
    assert all(found[f"{family} {how}, apart"].value == 0 for how in ("alone", "full"))

    def other(name: str, config: Any) -> Any:
        """Another noise schedule for stock."""
        changed = {"shift": 1.5} if family == "sd3" else {"beta_end": 0.02}
        return fresh_scheduler(name, {**config, **changed})

    monkeypatch.setattr(pictures, "fresh_scheduler", other)
    missed = alike(family, drawer, [scheduler])
    assert not any(missed[f"{family} {how}, apart"].met for how in ("alone", "full", "churning"))


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
def test_a_video_has_frames_in_both(models: Path) -> None:
    drawer = Drawer(fresh(models, "animatediff"), Shape(64, 64, 1, FRAMES))
    one = request("ddim", 2)
    (stock,), (ours,) = drawer.stock([one]), drawer.ours(drawer.engine(), [one])
    assert stock.shape == ours.shape == (FRAMES, 64, 64, 3)
