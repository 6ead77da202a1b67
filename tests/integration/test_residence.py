"""The models on the device, over real (tiny) pipelines: what stays, what leaves, and that nothing of it is left."""

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from gpu_consumer.engine.device import CpuDevice
from gpu_consumer.engine.pipeline import PipelineEngine
from gpu_consumer.engine.protocol import Item
from gpu_consumer.engine.residence import Residence, WeightsLeft
from gpu_consumer.engine.settings import EngineSettings
from gpu_consumer.models.digests import ModelUnavailable
from gpu_consumer.models.size import weights_bytes
from schemas.config import GenerationConfig, ModelRef
from tests.tiny import models, tiny_config
from tests.whole import run_whole

__all__ = ["models"]

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

ROOMY = 1 << 30


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def variants(models: Path) -> tuple[GenerationConfig, ...]:
    """Three models: two families, and one of them in another type."""
    return tiny_config(models), tiny_config(models, "sdxl"), tiny_config(models, dtype="bfloat16")


def live_bytes() -> int:
    """Of all tensors in this process, those in cycles that nobody collected too: each storage once."""
    tensors = [one for one in gc.get_objects() if issubclass(type(one), torch.Tensor)]
    return sum({one.untyped_storage()._cdata: one.untyped_storage().nbytes() for one in tensors}.values())


def residence(
    models: Path, cache_bytes: int = ROOMY, host_cache_bytes: int = 0, memory_bytes: int = ROOMY
) -> Residence:
    return Residence(CpuDevice(memory_bytes), models, cache_bytes, host_cache_bytes)


def take(kept: Residence, config: GenerationConfig) -> float:
    """The seconds it took; nobody holds the model afterwards."""
    return kept.take(config)[1]


def picture(kept: Residence, config: GenerationConfig) -> bytes:
    engine = PipelineEngine(kept._device, kept)
    return run_whole(engine, config, Item("a", "a red circle", "", 7)).pictures[0].data


def test_models_stay_and_the_least_recently_used_leaves(models: Path) -> None:
    first, second, third = variants(models)
    sizes = {config.model_key: weights_bytes(models / config.model.name, config.dtype) for config in (first, second)}
    kept = residence(models, cache_bytes=int(1.1 * sum(sizes.values())))
    assert take(kept, first) > 0
    assert take(kept, second) > 0
    assert take(kept, first) == 0
    assert kept.keys() == (second.model_key, first.model_key)
    assert take(kept, third) > 0
    assert kept.keys() == (first.model_key, third.model_key)
    assert kept.key == third.model_key


def test_what_a_model_takes_is_known_before_it_is_read(models: Path) -> None:
    for config in variants(models):
        kept = residence(models)
        take(kept, config)
        expected = weights_bytes(models / config.model.name, config.dtype)
        assert expected == pytest.approx(kept.weights_bytes, rel=0.02)


def test_without_a_cache_only_the_model_in_use_stays(models: Path) -> None:
    kept = residence(models, cache_bytes=0)
    for config in variants(models):
        take(kept, config)
        assert kept.keys() == (config.model_key,)


@pytest.mark.parametrize("host_cache_bytes", [0, ROOMY])
def test_unloading_returns_to_the_baseline(models: Path, host_cache_bytes: int) -> None:
    """Cases DIF-14, DIF-17: measured from live tensors, and by what still holds the pipeline."""
    kept = residence(models, host_cache_bytes=host_cache_bytes)
    configs = variants(models)
    for config in configs:
        picture(kept, config)
    kept.clear()
    before = live_bytes()
    free = kept._device.free_bytes()
    for config in configs:
        picture(kept, config)
    pipes = [weakref.ref(kept.take(config)[0].pipe) for config in configs]
    assert live_bytes() >= before + kept.weights_bytes
    kept.clear()
    assert [pipe() for pipe in pipes] == [None] * 3
    assert live_bytes() == before
    assert kept._device.free_bytes() == free == ROOMY
    assert kept.keys() == ()


def test_weights_that_somebody_still_holds_are_noticed(models: Path) -> None:
    """Case DIF-14: what is not freed is not taken for free."""
    first, second, _ = variants(models)
    kept = residence(models, cache_bytes=0)
    weight = next(kept.take(first)[0].pipe.unet.parameters()).data
    with pytest.raises(WeightsLeft, match=first.model_key):
        kept.take(second)
    del weight


def test_free_memory_is_asked_and_room_is_made_for_a_model(models: Path) -> None:
    first, second, _ = variants(models)
    larger = weights_bytes(models / second.model.name, second.dtype)
    kept = residence(models, memory_bytes=int(1.2 * larger))
    take(kept, first)
    take(kept, second)
    assert kept.keys() == (second.model_key,)


def test_a_model_that_never_fits_drops_nobody(models: Path) -> None:
    first, second, _ = variants(models)
    kept = residence(models, memory_bytes=int(1.1 * weights_bytes(models / first.model.name, first.dtype)))
    take(kept, first)
    with pytest.raises(ModelUnavailable, match=r"does not fit the device \(it takes .* pool with more memory"):
        take(kept, second)
    assert kept.keys() == (first.model_key,)


def test_a_model_that_is_not_the_one_asked_for_drops_nobody(models: Path) -> None:
    first, second, _ = variants(models)
    kept = residence(models, cache_bytes=0)
    take(kept, first)
    wrong = second.model_copy(update={"model": ModelRef(name=second.model.name, digest="sha256:" + "0" * 64)})
    with pytest.raises(ModelUnavailable, match="was asked for"):
        take(kept, wrong)
    assert kept.keys() == (first.model_key,)


def test_room_is_made_for_a_batch_but_never_of_the_model_in_use(models: Path) -> None:
    configs = variants(models)
    kept = residence(models)
    for config in configs:
        take(kept, config)
    free = kept._device.free_bytes()
    assert kept.make_room(free)
    assert len(kept.keys()) == 3
    assert kept.make_room(free + 1)
    assert kept.keys() == tuple(config.model_key for config in configs[1:])
    assert not kept.make_room(ROOMY)
    assert kept.keys() == (configs[2].model_key,)


def test_a_batch_starts_on_a_device_that_has_cached_nothing(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = residence(models)
    take(kept, variants(models)[0])
    emptied: list[bool] = []
    monkeypatch.setattr(CpuDevice, "empty_cache", lambda _: emptied.append(True))
    assert kept.make_room(0)
    assert emptied == [True]


def test_a_model_comes_back_from_host_memory_and_draws_the_same(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, third = variants(models)
    kept = residence(models, cache_bytes=0, host_cache_bytes=ROOMY)
    expected = {config.model_key: picture(kept, config) for config in (first, second, third)}
    monkeypatch.setattr("gpu_consumer.engine.residence.load", never)
    for _ in range(2):
        for config in (first, second, third):
            assert picture(kept, config) == expected[config.model_key]
            assert kept.keys() == (config.model_key,)


def never(*_: object) -> None:
    raise AssertionError("read from its files though it is in host memory")


def test_host_memory_has_its_bound(models: Path) -> None:
    first, second, third = variants(models)
    kept = residence(models, cache_bytes=0, host_cache_bytes=int(1.1 * weights_bytes(models / "tiny-sdxl", "float32")))
    for config in (first, second, third):
        take(kept, config)
    assert tuple(kept._copies) == (second.model_key,)  # the first left for it
    take(kept, first)
    assert sum(copy.bytes for copy in kept._copies.values()) <= kept._host_cache_bytes


@pytest.fixture
def _no_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("_no_collector")
def test_many_swaps_leave_nothing(models: Path) -> None:
    """Cases DIF-17 and DIF-22: the slope is flat, and not because the collector happened to run."""
    kept = residence(models, cache_bytes=0)
    configs = variants(models)
    sizes: list[int] = []
    for _ in range(3):
        for config in configs:
            take(kept, config)
        sizes.append(live_bytes())
    assert sizes[1:] == sizes[:1] * 2


def test_a_cache_of_half_the_device_is_the_default(models: Path) -> None:
    settings = EngineSettings(models_directory=models, cpu_memory_bytes=ROOMY)
    assert Residence.of(CpuDevice(ROOMY), settings)._cache_bytes == ROOMY // 2
    chosen = settings.model_copy(update={"model_cache_bytes": 7, "host_cache_bytes": 8})
    kept = Residence.of(CpuDevice(ROOMY), chosen)
    assert (kept._cache_bytes, kept._host_cache_bytes) == (7, 8)
