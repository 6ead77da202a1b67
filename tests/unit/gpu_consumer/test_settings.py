"""Settings: defaults that fit together, and relations that are checked at the start."""

from typing import Any

import pytest
from pydantic import ValidationError

from gpu_consumer.engine.process import EngineProcess
from gpu_consumer.engine.team import EngineTeam
from gpu_consumer.service import make_engine, preload_list
from gpu_consumer.settings import GpuConsumerSettings
from schemas.catalogue import ConfigCatalogue
from schemas.config_file import ConfigFile
from schemas.errors import CatalogueError
from tests.unit.gpu_consumer.work import config


def test_every_setting_has_a_default_and_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KILN_GPU_POOL", "small")
    monkeypatch.setenv("KILN_GPU_THREADS", "3")
    monkeypatch.setenv("KILN_GPU_LANE_WEIGHTS", '{"interactive": 8, "standard": 2, "bulk": 1}')
    settings = GpuConsumerSettings(device="cpu")
    assert settings.pool == "small"
    assert settings.workers == 1
    assert settings.lane_weights == {"interactive": 8, "standard": 2, "bulk": 1}
    engine = settings.engine_settings()
    assert (engine.threads, engine.device, engine.cpu_memory_bytes) == (3, "cpu", settings.device_memory_bytes)
    assert GpuConsumerSettings(device="auto").engine_settings().device in ("cpu", "cuda")


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"grace_seconds": 5, "close_seconds": 5}, "close_seconds must be below grace_seconds"),
        ({"store_backoff_seconds_min": 9, "store_backoff_seconds_max": 1}, "lower it"),
        ({"run_ahead_max": 1, "backlog_max": 2000}, "lower it"),
        ({"lane_weights": {"interactive": 1, "bulk": 1}}, "no weight for standard"),
        ({"lane_weights": {"interactive": 1, "standard": 0, "bulk": 1}}, "greater than 0"),
        ({"batch_wait_seconds": -1}, "greater than or equal to 0"),
        ({"pool": "A pool"}, "pattern"),
    ],
)
def test_what_cannot_work_does_not_start(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence):
        GpuConsumerSettings(**values)


@pytest.mark.parametrize(("workers", "made"), [(1, EngineProcess), (2, EngineTeam)])
def test_more_workers_than_one_are_a_team(workers: int, made: type) -> None:
    settings = GpuConsumerSettings(device="cpu", workers=workers)
    assert type(make_engine(settings, settings.engine_settings(), ())) is made


def test_no_more_workers_than_a_card_can_be_split_among() -> None:
    with pytest.raises(ValidationError, match="workers"):
        GpuConsumerSettings(workers=5)


def test_workers_share_their_weights_as_only_linux_can(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    with pytest.raises(ValidationError, match="set it to 1"):
        GpuConsumerSettings(workers=2)


def body(**changes: Any) -> dict[str, Any]:
    return config(**changes).model_dump(exclude={"name", "version"})


CONFIGS = ConfigCatalogue(
    [
        ConfigFile.model_validate(
            {"name": "sketch", "channels": {"stable": 2}, "versions": {1: body(), 2: body(steps=8)}}
        ),
        ConfigFile.model_validate({"name": "other", "channels": {"stable": 1}, "versions": {1: body(pool="b")}}),
        ConfigFile.model_validate({"name": "beta", "channels": {"canary": 1}, "versions": {1: body()}}),
        ConfigFile.model_validate(
            {
                "name": "split",
                "channels": {"stable": {1: 95, 2: 5, 3: 0, 4: 1}},
                "compatible": {4: 2},
                "versions": {1: body(), 2: body(steps=8), 3: body(steps=9), 4: body(steps=10, retired=True)},
            }
        ),
    ]
)


@pytest.mark.parametrize(
    ("wanted", "labels"),
    [
        ("stable", ["sketch@2", "split@1", "split@2"]),  # all that requests may get, each once
        ("", []),
        ("sketch@1, other", ["sketch@1", "other@1"]),
        ("split, split@2, beta:canary", ["split@1", "split@2", "beta@1"]),
    ],
)
def test_the_preload_list_is_the_stable_configs_of_the_pool_or_what_is_named(wanted: str, labels: list[str]) -> None:
    assert [each.label for each in preload_list(wanted, "a", CONFIGS)] == labels


@pytest.mark.parametrize("wanted", ["sketch@9", "nothing", "sketch@one", "sketch@²", "sketch@0", "sketch@", "beta"])
def test_a_preload_that_does_not_exist_stops_the_start(wanted: str) -> None:
    with pytest.raises(CatalogueError, match="KILN_GPU_PRELOAD"):
        preload_list(wanted, "a", CONFIGS)
