"""Options by which a model is loaded, on a card. What is not installed is skipped."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpu_consumer.engine.device import open_device
from gpu_consumer.engine.pipeline import PipelineEngine
from gpu_consumer.engine.residence import Residence
from gpu_consumer.engine.settings import EngineSettings
from gpu_consumer.models.backends import BackendMissing, check_backends
from schemas.config import GenerationConfig
from tests.integration.test_load_options import ITEMS, drawn
from tests.tiny import models, tiny_config

__all__ = ["models"]


@pytest.fixture
def engine(models: Path) -> Iterator[PipelineEngine]:
    settings = EngineSettings(models_directory=models, device="cuda")
    kept = Residence.of(open_device(settings), settings)
    yield PipelineEngine(kept._device, kept)
    kept.clear()


def config_or_skip(models: Path, **option: Any) -> GenerationConfig:
    config = tiny_config(models, dtype="float16", batching="whole", **option)
    try:
        check_backends(config, "cuda")
    except BackendMissing as missing:
        pytest.skip(str(missing))
    return config


@pytest.mark.parametrize("offload", ["model", "sequential"])
def test_weights_that_wait_on_the_host_draw_the_same(models: Path, engine: PipelineEngine, offload: str) -> None:
    config = config_or_skip(models, offload=offload)
    assert drawn(engine, config) == drawn(engine, config.model_copy(update={"offload": "none"}))


@pytest.mark.parametrize(
    "option",
    [
        {"attention": "xformers"},
        {"compile": {"backend": "inductor", "parts": ["denoiser", "decoder"]}},
        {"compile": {"backend": "inductor", "mode": "reduce-overhead"}},
        {"compile": {"backend": "tensorrt"}},
    ],
)
def test_other_kernels_draw_the_same_each_time_and_beside_anybody(
    models: Path, engine: PipelineEngine, option: dict[str, Any]
) -> None:
    config = config_or_skip(models, **option)
    first = drawn(engine, config)
    assert drawn(engine, config) == first
    assert drawn(engine, config, ITEMS[1]) == {"b": first["b"]}
