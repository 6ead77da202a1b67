"""Options by which a model is loaded, each through the pipeline engine and, where it may, the step loop."""

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from gpu_consumer.engine.device import CpuDevice
from gpu_consumer.engine.pipeline import PipelineEngine
from gpu_consumer.engine.protocol import Item
from gpu_consumer.engine.residence import Residence
from gpu_consumer.engine.stepwise.request import Request, Shape
from gpu_consumer.models.backends import BackendMissing
from gpu_consumer.models.digests import ModelUnavailable, model_digest
from gpu_consumer.models.loading import load
from gpu_consumer.models.size import weights_bytes
from gpu_consumer.models.weights import uniform
from schemas.config import GenerationConfig
from tests.stepwise import ROOMY, finish, made, sha256, stepwise
from tests.tiny import models, tiny_config
from tests.whole import run_whole

__all__ = ["models"]

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

ITEMS = (Item("a", "a red circle on the left", "", 0), Item("b", "日本の城 🏯 in autumn", "grey", 1))


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def compiling() -> Iterator[None]:
    """What torch.compile has made belongs to a process, as its settings do."""
    import torch._dynamo

    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    with torch._dynamo.config.patch(), torch._inductor.config.patch():
        yield
    torch._dynamo.reset()


def engine(models: Path) -> PipelineEngine:
    device = CpuDevice(ROOMY)
    return PipelineEngine(device, Residence(device, models))


def drawn(engine: PipelineEngine, config: GenerationConfig, *items: Item) -> dict[str, str]:
    """Key -> SHA-256 of the picture."""
    finished = run_whole(engine, config, *(items or ITEMS))
    assert not finished.flaws
    return {picture.key: hashlib.sha256(picture.data).hexdigest() for picture in finished.pictures}


def drawn_by_steps(models: Path, config: GenerationConfig) -> dict[str, str]:
    running = stepwise(load(config, models, "cpu"), Shape.of(config))
    running.join([Request.of(item, config) for item in ITEMS])
    return {key: sha256(made(ended)) for key, ended in finish(running).items()}


@pytest.mark.parametrize("option", [{"vae_slicing": True}, {"vae_tiling": 64}, {"vae_slicing": True, "vae_tiling": 64}])
def test_a_decode_in_pieces_is_the_same_in_both_engines_and_beside_anybody(
    models: Path, option: dict[str, Any]
) -> None:
    config = tiny_config(models, width=128, height=96, **option)
    one = engine(models)
    together = drawn(one, config)
    assert drawn_by_steps(models, config) == together
    assert drawn(one, config, ITEMS[1]) == {"b": together["b"]}


def decoded(models: Path, config: GenerationConfig) -> list[tuple[int, ...]]:
    """The shapes of latents that the decoder of a new model saw."""
    seen: list[tuple[int, ...]] = []
    one = engine(models)
    decoder = one._residence.take(config)[0].pipe.vae.decoder
    decoder.register_forward_pre_hook(lambda _, given: seen.append(tuple(given[0].shape)))
    finished = run_whole(one, config, *ITEMS)
    assert {(each.width, each.height) for each in finished.pictures} == {(config.width, config.height)}
    return seen


def test_a_piece_is_of_the_size_that_was_asked_for(models: Path) -> None:
    plain = tiny_config(models, width=128, height=128)
    assert decoded(models, plain) == [(4, 4, 16, 16)]
    sliced = plain.model_copy(update={"vae_slicing": True})
    assert decoded(models, sliced) == [(1, 4, 16, 16)] * 4
    assert decoded(models, plain.model_copy(update={"vae_tiling": 128})) == [(4, 4, 16, 16)]
    for tiling, width, largest in ((64, 128, 8), (True, 128, 8), (128, 192, 16)):  # the tiny VAE was made for 64 pixels
        tiled = decoded(models, plain.model_copy(update={"vae_tiling": tiling, "width": width}))
        assert len(tiled) > 1
        assert max(shape[-1] for shape in tiled) == largest
        assert {shape[0] for shape in tiled} == {4}


@pytest.mark.usefixtures("compiling")
def test_a_compiled_model_is_compiled_once_a_shape_and_draws_the_same(models: Path) -> None:
    """This backend runs torch's own kernels, so every byte must stay; inductor's kernels are others."""
    plain = tiny_config(models)
    config = tiny_config(models, compile={"backend": "aot_eager", "fullgraph": True, "parts": ["denoiser", "decoder"]})
    expected = drawn(engine(models), plain)
    counted = torch._dynamo.utils.counters["stats"]
    assert counted["unique_graphs"] == 0
    one = engine(models)
    assert drawn(one, config) == expected
    assert counted["unique_graphs"] == 2  # the first batch made them: a warm-up has them ready
    assert drawn(one, config, ITEMS[1]) == {"b": expected["b"]}
    assert counted["unique_graphs"] == 2
    one._residence.clear()  # raises where a kernel still holds weights
    assert drawn_by_steps(models, config) == expected


@pytest.mark.usefixtures("compiling")
def test_kernels_are_not_chosen_by_what_ran_fastest(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing runs here, so no kernel is made: that takes inductor a minute on a CPU."""
    monkeypatch.setattr("gpu_consumer.models.loading.check_backends", lambda *_: None)  # perhaps no compiler is here
    torch._inductor.config.deterministic = False
    pipe = load(tiny_config(models, compile={"backend": "inductor"}), models, "cpu").pipe
    assert torch._inductor.config.deterministic
    assert pipe.unet._compiled_call_impl is not None
    assert pipe.vae.decoder._compiled_call_impl is None


@pytest.mark.usefixtures("compiling")
def test_more_shapes_than_kernels_are_kept_for_is_an_error_and_not_another_picture(
    models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpu_consumer.models.options.compiling._SHAPES_MAX", 1)
    one = engine(models)
    config = tiny_config(models, compile={"backend": "eager"})
    drawn(one, config)
    other = config.model_copy(update={"width": 128})
    assert {flaw.code for flaw in run_whole(one, other, *ITEMS).flaws} == {"generation_error"}


def test_what_is_not_installed_is_said_when_the_model_is_loaded(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpu_consumer.models.backends.find_spec", lambda _: None)
    offloaded = tiny_config(models, batching="whole", offload="model")
    with pytest.raises(BackendMissing, match=r"install promptkiln\[offload\]"):
        run_whole(engine(models), offloaded, *ITEMS)


def test_a_model_that_is_brought_part_by_part_draws_the_same(models: Path) -> None:
    pytest.importorskip("accelerate")
    one = engine(models)
    plain = tiny_config(models, batching="whole")
    offloaded = tiny_config(models, batching="whole", offload="model")
    expected = drawn(one, plain)
    assert drawn(one, offloaded) == expected
    assert drawn(one, offloaded, ITEMS[1]) == {"b": expected["b"]}
    whole, parts = load(plain, models, "cpu"), load(offloaded, models, "cpu")
    assert (whole.offloaded, parts.offloaded) == (False, True)
    assert [hasattr(one.pipe.unet, "_hf_hook") for one in (whole, parts)] == [False, True]
    assert 0 < parts.weights_bytes < whole.weights_bytes


def test_a_model_larger_than_its_device_is_served_part_by_part(models: Path) -> None:
    pytest.importorskip("accelerate")
    config = tiny_config(models, batching="whole", offload="model", price={"gpu_seconds": 0.1, "vram_bytes": 1})
    whole, largest = (weights_bytes(models / config.model.name, config.dtype, offload) for offload in ("none", "model"))
    small = CpuDevice((whole + largest) // 2)
    kept = Residence(small, models, host_cache_bytes=ROOMY)
    one = PipelineEngine(small, kept)
    with pytest.raises(ModelUnavailable, match="does not fit"):
        run_whole(one, config.model_copy(update={"offload": "none"}), *ITEMS)
    first = drawn(one, config)
    kept.clear()
    assert drawn(one, config) == first
    assert kept.weights_bytes == load(config, models, "cpu").weights_bytes == pytest.approx(largest, rel=0.05)


def lora(file: Path, models: Path, seed: str) -> dict[str, Any]:
    """A LoRA of rank 4 for every attention of the tiny SD 1.5, from its name alone; as a config names it."""
    from safetensors.torch import save_file

    def matrix(name: str, rows: int, columns: int) -> torch.Tensor:
        return torch.from_numpy(uniform(f"{seed}/{name}", rows * columns)).float().reshape(rows, columns) / 4

    weights = {}
    for name, part in load(tiny_config(models), models, "cpu").pipe.unet.named_modules():
        if isinstance(part, torch.nn.Linear) and name.rsplit(".", 1)[-1] in {"to_q", "to_k", "to_v"}:
            weights[f"unet.{name}.lora_A.weight"] = matrix(f"{name}.A", 4, part.in_features)
            weights[f"unet.{name}.lora_B.weight"] = matrix(f"{name}.B", part.out_features, 4)
    assert weights
    file.parent.mkdir(exist_ok=True)
    save_file(weights, file)
    place = file if file.parent == models else file.parent
    return {"name": place.name, "digest": model_digest(place)}


def test_a_lora_changes_pictures_and_leaves_nothing_behind(models: Path) -> None:
    """Case DIF-17: a model with other LoRAs is another model, loaded anew, so no residue can be."""
    pytest.importorskip("peft")
    ink = lora(models / "ink.safetensors", models, "ink")
    oil = lora(models / "oil" / "anything.safetensors", models, "oil")
    one = engine(models)

    def with_(*loras: dict[str, Any], **different: Any) -> GenerationConfig:
        return tiny_config(models, loras=loras, **different)

    wishes = [with_(), with_(ink), with_(ink | {"scale": 0.5}), with_(oil), with_(ink, oil)]
    first = [drawn(one, config) for config in wishes]
    assert len({pictures["a"] for pictures in first}) == len(wishes)
    assert [drawn(one, config) for config in reversed(wishes)] == first[::-1]
    assert drawn_by_steps(models, with_(ink, oil)) == first[-1]
    nothing = {"name": "none.safetensors", **{"digest": ink["digest"], "scale": 0.0}}
    (models / "none.safetensors").write_bytes((models / "ink.safetensors").read_bytes())
    assert drawn(one, with_(nothing)) == first[0]
    merged, plain = load(with_(ink, oil), models, "cpu"), load(with_(), models, "cpu")
    assert merged.weights_bytes == plain.weights_bytes


def test_a_lora_of_another_content_or_none_is_refused_with_the_cure(models: Path) -> None:
    ink = lora(models / "ink.safetensors", models, "ink")
    wrong = tiny_config(models, loras=[ink | {"digest": "sha256:" + "0" * 64}])
    missing = tiny_config(models, loras=[ink | {"name": "nowhere"}])
    with pytest.raises(ModelUnavailable, match=r"the LoRA in .*ink.* was asked for; fetch the right files"):
        run_whole(engine(models), wrong, *ITEMS)
    with pytest.raises(ModelUnavailable, match=r"there is no LoRA in .*nowhere; put the file"):
        run_whole(engine(models), missing, *ITEMS)


def test_a_folder_of_two_loras_is_refused_and_the_usual_name_decides(models: Path) -> None:
    pytest.importorskip("peft")
    lora(models / "two" / "first.safetensors", models, "first")
    second = lora(models / "two" / "second.safetensors", models, "second")
    with pytest.raises(ModelUnavailable, match=r"not one \.safetensors file but 2"):
        run_whole(engine(models), tiny_config(models, loras=[second]), *ITEMS)
    (models / "two" / "first.safetensors").rename(models / "two" / "pytorch_lora_weights.safetensors")
    chosen = {"name": "two", "digest": model_digest(models / "two")}
    alone = lora(models / "first" / "first.safetensors", models, "first")
    assert drawn(engine(models), tiny_config(models, loras=[chosen])) == drawn(
        engine(models), tiny_config(models, loras=[alone])
    )


@pytest.mark.parametrize("content", ["another model's", "damaged", "too large"])
def test_a_lora_that_does_not_fit_is_refused_with_the_cure(models: Path, content: str) -> None:
    pytest.importorskip("peft")
    from safetensors.torch import save_file

    file = models / "misfit.safetensors"
    name = "mid_block.attentions.0.transformer_blocks.0.attn1.to_q"
    if content == "damaged":
        file.write_bytes(b"no tensors")
    else:
        where = f"unet.{name}" if content == "too large" else "elsewhere"
        save_file({f"{where}.lora_A.weight": torch.ones(4, 7), f"{where}.lora_B.weight": torch.ones(7, 4)}, file)
    config = tiny_config(models, loras=[{"name": file.name, "digest": model_digest(file)}])
    with pytest.raises(ModelUnavailable, match=r"the LoRA .*misfit.* does not fit .*trained for it"):
        run_whole(engine(models), config, *ITEMS)


@pytest.mark.parametrize(("place", "file"), [("ink.bin", "ink.bin"), ("pickled", "pickled/pytorch_lora_weights.bin")])
def test_a_pickled_lora_is_refused(models: Path, place: str, file: str) -> None:
    """A pickle is a program: whoever reads it runs it."""
    pytest.importorskip("peft")
    (models / file).parent.mkdir(exist_ok=True)
    torch.save({"unet.mid_block.lora_A.weight": torch.ones(4, 4)}, models / file)
    config = tiny_config(models, loras=[{"name": place, "digest": model_digest(models / place)}])
    with pytest.raises(ModelUnavailable, match=r"not one \.safetensors file"):
        run_whole(engine(models), config, *ITEMS)


def test_a_lora_that_its_digest_does_not_cover_is_refused(models: Path) -> None:
    (models / "hidden").mkdir()
    lora(models / ".ink.safetensors", models, "ink")
    (models / ".ink.safetensors").rename(models / "hidden" / ".ink.safetensors")
    (models / "hidden" / "README").write_text("No hidden file is part of a digest.")
    config = tiny_config(models, loras=[{"name": "hidden", "digest": model_digest(models / "hidden")}])
    with pytest.raises(ModelUnavailable, match=r"not one \.safetensors file"):
        run_whole(engine(models), config, *ITEMS)


@pytest.mark.parametrize("offload", ["none", "model"])
def test_what_is_loaded_does_not_change_with_its_files(models: Path, tmp_path: Path, offload: str) -> None:
    """Weights in host memory are the file itself, mapped, until somebody copies them."""
    if offload != "none":
        pytest.importorskip("accelerate")
    shutil.copytree(models / "tiny-sd15", tmp_path / "tiny-sd15")
    config = tiny_config(models, offload=offload, batching="whole")
    unet = load(config, tmp_path, "cpu").pipe.unet
    before = {name: tensor.clone() for name, tensor in unet.state_dict().items()}
    for file in tmp_path.rglob("*.safetensors"):
        size = file.stat().st_size
        with file.open("r+b") as opened:  # as cp and rsync --inplace write over what is there
            opened.seek(size // 2)
            opened.write(bytes(size - size // 2))
    assert all(torch.equal(tensor, before[name]) for name, tensor in unet.state_dict().items())


def test_what_changes_while_it_is_read_is_refused(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gpu_consumer.models import loading

    shutil.copytree(models / "tiny-sd15", tmp_path / "tiny-sd15")
    read = loading._read

    def late(folder: Path, *others: Any) -> Any:
        (folder / "unet" / "config.json").write_text((folder / "unet" / "config.json").read_text() + "\n")
        return read(folder, *others)

    monkeypatch.setattr(loading, "_read", late)
    with pytest.raises(ModelUnavailable, match="fetch the right files"):
        load(tiny_config(models), tmp_path, "cpu")
