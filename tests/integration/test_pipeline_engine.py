"""The pipeline engine over real (tiny) diffusers pipelines, in this process."""

import gc
import hashlib
import io
import json
import shutil
import socket
import threading
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Never

import numpy as np
import pytest
import torch
from PIL import Image

from gpu_consumer.engine import stages
from gpu_consumer.engine.account import Account
from gpu_consumer.engine.device import CpuDevice
from gpu_consumer.engine.faults import Sticky
from gpu_consumer.engine.pipeline import PipelineEngine
from gpu_consumer.engine.protocol import Item
from gpu_consumer.engine.residence import Residence
from gpu_consumer.models.digests import ModelUnavailable, model_digest
from gpu_consumer.models.families import FAMILIES, SCHEDULERS
from gpu_consumer.models.loading import Loaded
from schemas.config import GenerationConfig, ModelRef
from tests.stepwise import PAIRS
from tests.tiny import models, tiny_config
from tests.whole import Finished, digests
from tests.whole import run_whole as run

__all__ = ["models"]

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

ROOMY = 1 << 30
ITEMS = (
    Item("a", "a red circle on the left", "", 0),
    Item("b", "日本の城 🏯 in autumn", "grey", 1),
    Item("c", "a cat", "a dog, blurred", 2**64 - 1),
    Item("d", "", "", 3),
)


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def engine(models: Path) -> PipelineEngine:
    return make_engine(models)


def make_engine(models: Path, memory_bytes: int = ROOMY) -> PipelineEngine:
    device = CpuDevice(memory_bytes)
    return PipelineEngine(device, Residence(device, models))


def spoil(engine: PipelineEngine, config: GenerationConfig, **changes: Any) -> None:
    """Put a fault into the stages of the loaded model, as a driver or a bad prompt would."""
    loaded, _ = engine._residence.take(config)
    loaded.family = replace(loaded.family, **changes)


def latents(loaded: Loaded, config: GenerationConfig, *items: Item) -> torch.Tensor:
    account = Account(CpuDevice(ROOMY), config.bucket)
    return stages.denoise(loaded, config, stages.padded(items, config.bucket), account)


@pytest.mark.parametrize(("family", "scheduler"), PAIRS)
def test_alone_and_in_a_full_batch_the_bytes_are_the_same(
    models: Path, engine: PipelineEngine, family: str, scheduler: str
) -> None:
    # case DIF-05, DIF-08, DIF-10
    config = tiny_config(models, family, scheduler=scheduler)
    together = digests(run(engine, config, *ITEMS))
    assert len(set(together.values())) == len(ITEMS)
    assert digests(run(engine, config, *reversed(ITEMS))) == together
    for item in ITEMS:
        assert digests(run(engine, config, item)) == {item.key: together[item.key]}


def test_alone_and_in_a_full_batch_the_latents_are_the_same(models: Path, engine: PipelineEngine) -> None:
    config = tiny_config(models, scheduler="euler-ancestral")
    loaded, _ = engine._residence.take(config)
    together = latents(loaded, config, *ITEMS)
    for n, item in enumerate(ITEMS):
        alone = latents(loaded, config, item)
        assert alone.dtype == torch.float32
        assert torch.equal(alone[0], together[n])


def test_every_word_of_a_request_matters(models: Path, engine: PipelineEngine) -> None:
    # case DIF-05, DIF-11
    config = tiny_config(models)
    item = Item("x", "a red circle", "", 0)
    variants = [
        run(engine, config, item),
        run(engine, config, replace(item, prompt="a blue circle")),
        run(engine, config, replace(item, negative_prompt="blurred")),
        run(engine, config, replace(item, seed=1)),
        run(engine, tiny_config(models, guidance_scale=1.0), item),
        run(engine, tiny_config(models, scheduler="euler"), item),
        run(engine, tiny_config(models, steps=5), item),
    ]
    assert len({digests(one)["x"] for one in variants}) == len(variants)
    assert digests(run(engine, config, item)) == digests(variants[0])


def test_a_picture_is_what_the_configuration_says(models: Path, engine: PipelineEngine) -> None:
    config = tiny_config(models, width=96, height=64)
    finished = run(engine, config, *ITEMS[:2])
    assert set(finished.timings) >= {"text", "denoise", "decode"}
    assert finished.bucket == 4
    assert finished.peak_vram_bytes > config.bucket * config.price.vram_bytes
    for picture in finished.pictures:
        image = Image.open(io.BytesIO(picture.data))
        assert (image.size, image.format, image.mode, image.info) == ((96, 64), "PNG", "RGB", {})
        assert (picture.width, picture.height, picture.content_type) == (96, 64, "image/png")
        assert np.asarray(image).std() > 20


@pytest.mark.parametrize(("image_format", "extension"), [("jpeg", "jpg"), ("webp", "webp")])
def test_other_formats(models: Path, engine: PipelineEngine, image_format: str, extension: str) -> None:
    config = tiny_config(models, image_format=image_format)
    (picture,) = run(engine, config, ITEMS[0]).pictures
    image = Image.open(io.BytesIO(picture.data))
    assert (image.format, image.size) == (image_format.upper(), (64, 64))
    assert (picture.extension, picture.content_type) == (extension, f"image/{image_format}")
    assert not image.getexif()


@pytest.mark.parametrize(("image_format", "content_type"), [("mp4", "video/mp4"), ("webp", "image/webp")])
def test_a_video_has_its_frames_and_its_duration(
    models: Path, engine: PipelineEngine, image_format: str, content_type: str
) -> None:
    config = tiny_config(models, "animatediff", image_format=image_format, frames=6, frames_per_second=4)
    finished = run(engine, config, *ITEMS[:2])
    assert [(one.frames, one.duration_seconds) for one in finished.pictures] == [(6, 1.5), (6, 1.5)]
    for one in finished.pictures:
        assert (one.content_type, one.extension, one.width, one.height) == (content_type, image_format, 64, 64)
    assert len(set(digests(finished).values())) == 2


def test_a_video_keeps_its_bytes_where_its_frames_are_decoded_in_two_chunks(
    models: Path, engine: PipelineEngine
) -> None:
    config = tiny_config(models, "animatediff", frames=6)  # 24 frames a bucket, 16 at a time: the third is cut
    together = digests(run(engine, config, *ITEMS))
    assert len(set(together.values())) == len(ITEMS)
    assert digests(run(engine, config, *reversed(ITEMS))) == together
    assert digests(run(engine, config, ITEMS[2])) == {"c": together["c"]}


def test_an_sd3_without_t5_is_loaded_and_hears_its_other_encoders(models: Path, tmp_path: Path) -> None:
    folder = tmp_path / "tiny-sd3"
    shutil.copytree(models / "tiny-sd3", folder)
    for part in ("text_encoder_3", "tokenizer_3"):
        shutil.rmtree(folder / part)
    index = json.loads((folder / "model_index.json").read_text())
    (folder / "model_index.json").write_text(
        json.dumps({**index, "text_encoder_3": [None, None], "tokenizer_3": [None, None]})
    )
    config = tiny_config(tmp_path, "sd3")
    pictures = run(make_engine(tmp_path), config, *ITEMS).pictures
    assert len({hashlib.sha256(one.data).hexdigest() for one in pictures}) == len(ITEMS)
    (long,) = run(make_engine(tmp_path), config, replace(ITEMS[0], prompt="cat " * 100)).pictures
    assert [warning.split(":")[0] for warning in long.warnings] == ["the prompt has 102 tokens and the model reads 77"]


def test_with_t5_an_sd3_reads_more(models: Path, engine: PipelineEngine) -> None:
    # case DIF-04
    config = tiny_config(models, "sd3")
    within, beyond = (replace(ITEMS[0], prompt="cat " * count) for count in (200, 300))
    (one,), (other,) = (run(engine, config, item).pictures for item in (within, beyond))
    assert one.warnings == ()
    assert other.warnings == ("the prompt has 301 tokens and the model reads 256: the end was left out",)


def test_a_prompt_that_is_cut_is_said_so(models: Path, engine: PipelineEngine) -> None:
    # case DIF-04
    config = tiny_config(models)
    finished = run(engine, config, Item("long", "x" * 200, "", 0), Item("fits", "x", "", 0))
    long, fits = finished.pictures
    assert long.warnings == ("the prompt has 202 tokens and the model reads 77: the end was left out",)
    assert fits.warnings == ()


def test_a_second_call_while_one_runs_is_refused_and_harms_nothing(models: Path) -> None:
    # case DIF-01
    engine = make_engine(models)
    config = tiny_config(models)
    expected = digests(run(engine, config, *ITEMS))
    inside, leave = threading.Event(), threading.Event()

    def slow(pipe: Any, latents: Any) -> Any:
        inside.set()
        assert leave.wait(60)
        return FAMILIES["sd15"].decode(pipe, latents)

    spoil(engine, config, decode=slow)
    found: list[Finished] = []
    thread = threading.Thread(target=lambda: found.append(run(engine, config, *ITEMS)))
    thread.start()
    assert inside.wait(60)
    with pytest.raises(RuntimeError, match="one at a time"):
        run(engine, config, ITEMS[0])
    leave.set()
    thread.join()
    assert digests(found[0]) == expected


def test_each_call_has_a_scheduler_of_its_own(models: Path) -> None:
    # case DIF-01, DIF-23
    engine = make_engine(models)
    loaded, _ = engine._residence.take(tiny_config(models))
    schedulers = []  # kept alive: an id of the dead may be used again
    for name in ("unipc", "ddim", "unipc"):
        run(engine, tiny_config(models, scheduler=name), ITEMS[0])
        schedulers.append(loaded.pipe.scheduler)
        assert type(schedulers[-1]).__name__ == SCHEDULERS[name][0]
    assert len({id(scheduler) for scheduler in schedulers}) == 3


def nan_for(n: int, *, in_half_only: bool = False) -> Callable[[Any, Any], Any]:
    """A decoder that overflows in slot `n`, and with `in_half_only` does not in float32."""

    def decode(pipe: Any, latents: torch.Tensor) -> torch.Tensor:
        images: torch.Tensor = FAMILIES["sd15"].decode(pipe, latents)
        if not (in_half_only and pipe.vae.dtype == torch.float32):
            images[n] = float("nan")
        return images

    return decode


def test_numbers_that_are_no_colours_cost_only_their_own_item(models: Path) -> None:
    # case DIF-13
    engine = make_engine(models)
    config = tiny_config(models)
    expected = digests(run(engine, config, *ITEMS[:3]))
    spoil(engine, config, decode=nan_for(1))
    finished = run(engine, config, *ITEMS[:3])
    assert [(flaw.key, flaw.code) for flaw in finished.flaws] == [("b", "non_finite")]
    assert digests(finished) == {key: expected[key] for key in "ac"}


def test_what_overflows_in_half_precision_is_decoded_again_in_float32(models: Path) -> None:
    # case DIF-13
    engine = make_engine(models)
    config = tiny_config(models, dtype="bfloat16")
    expected = digests(run(engine, config, *ITEMS[:3]))
    spoil(engine, config, decode=nan_for(1, in_half_only=True))
    finished = run(engine, config, *ITEMS[:3])
    assert finished.flaws == ()
    rescued = digests(finished)
    assert {key: rescued[key] for key in "ac"} == {key: expected[key] for key in "ac"}
    loaded, _ = engine._residence.take(config)
    assert loaded.pipe.vae.dtype == torch.bfloat16
    # Promise 4 holds for a rescued item too: its neighbours do not matter.
    spoil(engine, config, decode=nan_for(0, in_half_only=True))
    assert digests(run(engine, config, ITEMS[1]))["b"] == rescued["b"]


def test_a_single_colour_is_no_picture(models: Path) -> None:
    # case DIF-13
    engine = make_engine(models)
    config = tiny_config(models)

    def black(pipe: Any, latents: torch.Tensor) -> torch.Tensor:
        images: torch.Tensor = FAMILIES["sd15"].decode(pipe, latents)
        images[2] = -1.0
        return images

    spoil(engine, config, decode=black)
    finished = run(engine, config, *ITEMS)
    assert [(flaw.key, flaw.code) for flaw in finished.flaws] == [("c", "blank_output")]
    assert [picture.key for picture in finished.pictures] == ["a", "b", "d"]


def test_a_checker_that_comes_with_a_model_blackens_no_picture(models: Path) -> None:
    """Case DIF-19: it is asked nothing. Admission's policies say whether a text is drawn, and a refusal has a code."""
    engine = make_engine(models)
    config = tiny_config(models)
    expected = digests(run(engine, config, *ITEMS[:3]))

    def flags_the_second(images: Any, clip_input: Any) -> tuple[Any, list[bool]]:
        images[1] *= 0
        return images, [False, True, False]

    loaded, _ = engine._residence.take(config)
    loaded.pipe.safety_checker = flags_the_second
    loaded.pipe.feature_extractor = lambda *_, **__: pytest.fail("a picture was shown to it")
    finished = run(engine, config, *ITEMS[:3])
    assert finished.flaws == ()
    assert digests(finished) == expected


def test_a_bad_item_is_found_and_its_neighbours_keep_their_bytes(models: Path) -> None:
    engine = make_engine(models)
    config = tiny_config(models, bucket=8)
    items = tuple(Item(str(n), f"picture {n}", "", n) for n in range(8))
    expected = digests(run(engine, config, *items))

    def picky(pipe: Any, prompts: list[str], negatives: list[str], guided: bool) -> Any:
        if "picture 5" in prompts:
            raise ValueError("the tokenizer chokes\non this")
        return FAMILIES["sd15"].encode(pipe, prompts, negatives, guided)

    spoil(engine, config, encode=picky)
    finished = run(engine, config, *items)
    (flaw,) = finished.flaws
    assert (flaw.key, flaw.code) == ("5", "generation_error")
    assert flaw.message.endswith("ValueError: the tokenizer chokes on this")
    assert digests(finished) == {key: digest for key, digest in expected.items() if key != "5"}
    assert finished.bucket == 8


def test_out_of_memory_lowers_the_bucket_and_says_so(models: Path) -> None:
    config = tiny_config(models)
    weights = 10 << 20  # more than the tiny model has, less than one picture below
    dear = config.model_copy(update={"price": config.price.model_copy(update={"vram_bytes": 100 << 20})})
    engine = make_engine(models, weights + 250 * (1 << 20))
    finished = run(engine, dear, *ITEMS)
    assert finished.flaws == ()
    assert finished.bucket == 2
    assert {picture.bucket for picture in finished.pictures} == {2}
    at_two = run(make_engine(models), tiny_config(models, bucket=2), *ITEMS[:2])
    assert digests(at_two).items() <= digests(finished).items()


def test_what_does_not_fit_alone_fails_and_leaves_the_memory_as_it_was(models: Path) -> None:
    # case DIF-14
    config = tiny_config(models)
    engine = make_engine(models, 100 << 20)
    run(engine, config, ITEMS[0])
    free = engine._device.free_bytes()
    huge = config.model_copy(update={"price": config.price.model_copy(update={"vram_bytes": 200 << 20})})
    finished = run(engine, huge, *ITEMS)
    assert {flaw.code for flaw in finished.flaws} == {"out_of_memory"}
    assert [flaw.key for flaw in finished.flaws] == [item.key for item in ITEMS]
    assert finished.bucket == 1
    assert engine._device.free_bytes() == free
    for n in range(20):
        assert not run(engine, config, Item("s", "small", "", n)).flaws


def test_before_a_retry_the_failed_batch_is_let_go(models: Path) -> None:
    # case DIF-14
    engine = make_engine(models)
    config = tiny_config(models)
    failed: list[weakref.ref[torch.Tensor]] = []
    alive_at_retry: list[bool] = []

    def runs_out_once(pipe: Any, latents: torch.Tensor) -> torch.Tensor:
        if not failed:
            held = torch.zeros(1 << 20)
            failed.append(weakref.ref(held))
            raise torch.OutOfMemoryError("CUDA out of memory")
        alive_at_retry.append(failed[0]() is not None)
        images: torch.Tensor = FAMILIES["sd15"].decode(pipe, latents)
        return images

    spoil(engine, config, decode=runs_out_once)
    finished = run(engine, config, *ITEMS)
    assert finished.flaws == ()
    assert finished.bucket == 2
    assert not any(alive_at_retry)


def test_a_lost_device_is_no_items_fault(models: Path) -> None:
    # case GPU-01
    engine = make_engine(models)

    def lost(pipe: Any, latents: Any) -> Never:
        raise RuntimeError("CUDA error: device-side assert triggered")

    config = tiny_config(models)
    spoil(engine, config, decode=lost)
    with pytest.raises(Sticky, match="device-side assert"):
        run(engine, config, *ITEMS)


def test_one_model_is_on_the_device_and_a_swap_leaves_nothing(models: Path) -> None:
    # case DIF-17
    engine = make_engine(models)
    first, second = tiny_config(models), tiny_config(models, "sdxl")
    expected = digests(run(engine, first, ITEMS[0]))
    free = engine._device.free_bytes()
    loaded, seconds = engine._residence.take(first)
    assert seconds == 0
    pipe = weakref.ref(loaded.pipe)
    del loaded
    swapped = run(engine, second, ITEMS[0])
    assert swapped.timings["load"] > 0
    assert engine._residence.key == second.model_key
    gc.collect()
    assert pipe() is None
    assert digests(run(engine, first, ITEMS[0])) == expected
    assert engine._device.free_bytes() == free


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"model": ModelRef(name="absent", digest="sha256:" + "0" * 64)}, "kiln models make-tiny"),
        ({"model": ModelRef(name="tiny-sd15", digest="sha256:" + "0" * 64)}, "was asked for"),
        ({"family": "sdxl"}, "is a StableDiffusionPipeline"),
        ({"family": "later"}, "not served by this release"),
    ],
)
def test_a_model_that_is_not_here_is_said_in_a_sentence(models: Path, change: dict[str, Any], sentence: str) -> None:
    engine = make_engine(models)
    config = tiny_config(models)
    with pytest.raises(ModelUnavailable, match=sentence):
        run(engine, config.model_copy(update=change), ITEMS[0])
    assert not run(engine, config, ITEMS[0]).flaws


def test_a_damaged_model_is_refused_and_leaves_no_memory(models: Path, tmp_path: Path) -> None:
    # case DIF-16
    shutil.copytree(models / "tiny-sd15", tmp_path / "tiny-sd15")
    weights = tmp_path / "tiny-sd15" / "unet" / "diffusion_pytorch_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])
    ref = ModelRef(name="tiny-sd15", digest=model_digest(tmp_path / "tiny-sd15"))
    config = tiny_config(models).model_copy(update={"model": ref})
    engine = make_engine(tmp_path)
    before = tensors()
    for _ in range(3):
        with pytest.raises(ModelUnavailable, match="cannot be loaded"):
            run(engine, config, ITEMS[0])
    assert tensors() <= before
    assert engine._device.free_bytes() == ROOMY


def test_a_model_too_large_for_the_device_is_refused(models: Path) -> None:
    with pytest.raises(ModelUnavailable, match="does not fit the device"):
        run(make_engine(models, 1 << 20), tiny_config(models), ITEMS[0])


def test_loading_opens_no_connection(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # case DIF-20
    def refused(*_: Any) -> Never:
        raise AssertionError("the network was used")

    monkeypatch.setattr(socket.socket, "connect", refused)
    monkeypatch.setattr(socket, "getaddrinfo", refused)
    for family in FAMILIES:
        assert not run(make_engine(models), tiny_config(models, family), ITEMS[0]).flaws


def tensors() -> int:
    gc.collect()
    return sum(1 for thing in gc.get_objects() if type(thing) in (torch.Tensor, torch.nn.Parameter))
