"""The tiny models for tests, made once a session, and configurations that run on them."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gpu_consumer.models.digests import model_digest
from schemas.config import GenerationConfig

# What a configuration of the family must say.
NEEDS: Mapping[str, Mapping[str, Any]] = {
    "sd3": {"scheduler": "flow-match-euler"},
    "animatediff": {"frames": 4, "image_format": "mp4"},
}


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The models directory. A module that asks for it imports it from here."""
    return _make(tmp_path_factory.getbasetemp() / "tiny-models")


@cache
def _make(directory: Path) -> Path:
    from gpu_consumer.models.tiny import make_tiny

    make_tiny(directory)
    return directory


def tiny_config(models: Path, family: str = "sd15", **different: Any) -> GenerationConfig:
    """Four steps of the tiny model of `family`, a PNG of 64 x 64 or an MP4 of four frames, four to a batch."""
    body = {
        "name": f"tiny-{family}",
        "version": 1,
        "family": family,
        "model": {"name": f"tiny-{family}", "digest": model_digest(models / f"tiny-{family}")},
        "dtype": "float32",
        "steps": 4,
        "guidance_scale": 5.0,
        "width": 64,
        "height": 64,
        "bucket": 4,
        "price": {"gpu_seconds": 0.1, "vram_bytes": 1 << 20},
    }
    return GenerationConfig.model_validate({**body, **NEEDS.get(family, {}), **different})
