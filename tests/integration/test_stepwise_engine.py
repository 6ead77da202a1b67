"""The stepwise engine beside the stock pipelines of diffusers, called as anyone would call them."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gpu_consumer.engine.device import CpuDevice
from gpu_consumer.engine.pipeline import PipelineEngine
from gpu_consumer.engine.pixels import to_uint8
from gpu_consumer.engine.residence import Residence
from gpu_consumer.engine.stepwise.request import Request, Shape
from gpu_consumer.models.families import FAMILIES, fresh_scheduler
from gpu_consumer.models.loading import Loaded
from tests.stepwise import FRAMES, PAIRS, ROOMY, SHAPE, finish, loaded, made, request, sha256, stepwise
from tests.tiny import models, tiny_config
from tests.whole import run_whole

__all__ = ["models"]

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def stock(model: Loaded, one: Request, batch: int, output_type: str) -> Any:
    """What a stock call gives for `batch` times the same request; the first of it."""
    frames = {"num_frames": FRAMES} if model.family.video else {}
    model.pipe.scheduler = fresh_scheduler(one.scheduler, model.scheduler_config)
    pictures = model.pipe(
        prompt=[one.item.prompt] * batch,
        negative_prompt=[one.item.negative_prompt] * batch,
        width=SHAPE.width,
        height=SHAPE.height,
        num_inference_steps=one.steps,
        guidance_scale=one.guidance_scale,
        generator=[torch.Generator("cpu").manual_seed(one.item.seed) for _ in range(batch)],
        output_type=output_type,
        return_dict=False,
        **frames,
    )[0]
    return pictures[0]


def levels_apart(left: Any, right: Any) -> int:
    return int(np.abs(left.astype(int) - right.astype(int)).max())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("family", "scheduler"), PAIRS)
def test_alone_it_is_the_stock_pipeline_bit_for_bit(models: Path, family: str, scheduler: str, dtype: str) -> None:
    model = loaded(models, family, dtype)
    one = request("a", "a red circle", "grey, blurred", 2**64 - 1, scheduler=scheduler, steps=5, guidance_scale=5.3)
    expected = stock(model, one, SHAPE.bucket, "latent")
    engine = stepwise(model)
    engine.join([one])
    picture = made(finish(engine)["a"])
    assert picture.latents.dtype == expected.dtype
    assert torch.equal(picture.latents[0], expected)
    if dtype == "float32":
        image = stock(model, one, SHAPE.bucket, "np")
        assert np.array_equal(picture.pixels, (image * 255).round().astype(np.uint8))


def churning(scheduler: str) -> list[Request]:
    """More than there are slots, no two alike, one of them unguided."""
    flow = scheduler == "flow-match-euler"
    second, third = (scheduler, scheduler) if flow else ("ddim", "unipc")
    return [
        request("0", "a red circle", "", 0, scheduler=scheduler, steps=5, guidance_scale=5.0),
        request("1", "日本の城 🏯 in autumn", "grey", 1, scheduler=second, steps=3, guidance_scale=9.0),
        request("2", "a cat", "a dog, blurred", 2, scheduler=scheduler, steps=8, guidance_scale=7.3),
        request("3", "a cat", "", 3, scheduler=scheduler, steps=4, guidance_scale=1.0),
        request("4", "", "", 4, scheduler=third, steps=6, guidance_scale=5.0),
        request("5", "a blue star", "red", 5, scheduler=scheduler, steps=7, guidance_scale=12.0),
    ]


@pytest.mark.parametrize(("family", "scheduler"), PAIRS)
def test_churning_it_is_the_stock_pipeline_bit_for_bit(models: Path, family: str, scheduler: str) -> None:
    # case DIF-05, DIF-07, DIF-10
    model = loaded(models, family)
    requests = churning(scheduler)
    engine = stepwise(model, decode_bucket=2)
    waiting = list(requests)

    def one_joins(_: int) -> None:
        if waiting and engine.free_slots:
            engine.join([waiting.pop(0)])

    ended = finish(engine, one_joins)
    for one in requests:
        picture = made(ended[one.key])
        if one.guided:
            assert torch.equal(picture.latents[0], stock(model, one, SHAPE.bucket, "latent"))
        else:  # stock runs one row a picture, and we two: the only case in which the size of the model's batch differs
            image = stock(model, one, SHAPE.bucket, "np")
            assert levels_apart(picture.pixels, (image * 255).round().astype(np.uint8)) <= 1
        if family == "sd15":  # the tiny SDXL pushes the last bit, which the size of a batch moves, up to whole colours
            image = stock(model, one, 1, "np")
            assert levels_apart(picture.pixels, (image * 255).round().astype(np.uint8)) <= 1


@pytest.mark.parametrize("family", FAMILIES)
def test_both_engines_give_one_configuration_the_same_bytes(models: Path, family: str) -> None:
    scheduler = "flow-match-euler" if family == "sd3" else "dpmpp-2m"
    config = tiny_config(models, family, scheduler=scheduler, bucket=3)
    items = [one.item for one in churning(scheduler)[:3]]
    device = CpuDevice(ROOMY)
    finished = run_whole(PipelineEngine(device, Residence(device, models)), config, *items)
    engine = stepwise(loaded(models, family), Shape.of(config))
    engine.join([Request.of(item, config) for item in items])
    ended = finish(engine)
    for picture in finished.pictures:
        assert hashlib.sha256(picture.data).hexdigest() == sha256(made(ended[picture.key]))


def test_pixels_are_what_the_stock_image_processor_gives(models: Path) -> None:
    image = torch.linspace(-1.2, 1.2, 3 * 64 * 64).reshape(1, 3, 64, 64)
    (expected,) = loaded(models).pipe.image_processor.postprocess(image, output_type="pil")
    assert np.array_equal(to_uint8(image)[0], np.asarray(expected))
