"""The kept model draws what its prompt says, through the engine that serves it."""

import io
import random
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch
from PIL import Image

from gpu_consumer.engine.device import CpuDevice
from gpu_consumer.engine.pipeline import PipelineEngine
from gpu_consumer.engine.protocol import Item
from gpu_consumer.engine.residence import Residence
from gpu_consumer.models.digests import model_digest
from gpu_consumer.models.shapes.draw import caption, held_out, scenes
from gpu_consumer.models.shapes.judge import Seen, look
from gpu_consumer.models.shapes.kept import NAME, add_shapes
from gpu_consumer.models.shapes.moving import NAME as MOVING
from gpu_consumer.models.shapes.moving import add_moving_shapes
from schemas.config import GenerationConfig
from tests.whole import run_whole

# Configurations name it: another model here is a new version of each.
PUBLISHED = "sha256:b7f52f1b24fe59c4c0b5c989ee1e423d071dfb520169c00b7c25c270f2832226"
MOVING_PUBLISHED = "sha256:8e8b6fded413920ee3cac54a2cefe514f0c303ec5ee1a5cef0dc6c808d478512"


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    directory = tmp_path_factory.mktemp("models")
    assert add_shapes(directory) == PUBLISHED
    return directory


def shapes_config(directory: Path, name: str = NAME, **different: Any) -> GenerationConfig:
    return GenerationConfig.model_validate(
        {
            "name": "shapes",
            "version": 1,
            "family": "sd15",
            "model": {"name": name, "digest": model_digest(directory / name)},
            "dtype": "float32",
            "scheduler": "ddim",
            "steps": 20,
            "guidance_scale": 3.0,
            "width": 64,
            "height": 64,
            "bucket": 5,
            "price": {"gpu_seconds": 0.1, "vram_bytes": 1 << 20},
            **different,
        }
    )


def pictures(directory: Path, prompts: list[str]) -> list[bytes]:
    """One PNG a prompt, its seed its number, in full batches but for the last."""
    return made_by(directory, shapes_config(directory), prompts)


def made_by(directory: Path, config: GenerationConfig, prompts: list[str]) -> list[bytes]:
    device = CpuDevice(1 << 30)
    engine = PipelineEngine(device, Residence(device, directory))
    items = [Item(str(n), prompt, "", n) for n, prompt in enumerate(prompts)]
    made: dict[str, bytes] = {}
    for number in range(0, len(items), config.bucket):
        finished = run_whole(engine, config, *items[number : number + config.bucket])
        made |= {picture.key: picture.data for picture in finished.pictures}
    return [made[item.key] for item in items]


def seen(data: bytes) -> Seen | None:
    return look(np.asarray(Image.open(io.BytesIO(data)).convert("RGB")))


def test_each_prompt_gets_its_own_picture(shapes: Path) -> None:
    """Of sentences that training never saw; one wrong place is the model's, two would be ours."""
    asked = random.Random(0).sample([scene for scene in scenes() if held_out(scene)], 20)
    found = [seen(data) for data in pictures(shapes, [caption(scene) for scene in asked])]
    pairs = [(scene, one) for scene, one in zip(asked, found, strict=True) if one is not None]
    assert len(pairs) == len(asked)
    assert [one.colour for _, one in pairs] == [scene.colour for scene, _ in pairs]
    assert [one.background for _, one in pairs] == [scene.background for scene, _ in pairs]
    assert sum(one.place == scene.place for scene, one in pairs) >= 19


def test_a_seed_moves_the_shape_and_keeps_what_was_asked_for(shapes: Path) -> None:
    made = pictures(shapes, ["a large red star on the left on a blue background"] * 5)
    assert len(set(made)) == 5
    assert {(one.colour, one.background, one.place) for data in made if (one := seen(data))} == {
        ("red", "blue", "left")
    }


def test_words_it_never_heard_and_no_words_give_a_picture(shapes: Path) -> None:
    assert len(pictures(shapes, ["", "a portrait of a fox in the snow", "緑の円 🟢"])) == 3


def test_each_frame_of_a_video_shows_what_its_prompt_says(shapes: Path) -> None:
    assert add_moving_shapes(shapes) == MOVING_PUBLISHED
    before = {path: path.stat().st_mtime_ns for path in (shapes / MOVING).rglob("*")}
    assert add_moving_shapes(shapes) == MOVING_PUBLISHED
    assert {path: path.stat().st_mtime_ns for path in (shapes / MOVING).rglob("*")} == before
    config = shapes_config(shapes, MOVING, family="animatediff", frames=8, image_format="mp4", bucket=2)
    asked = random.Random(0).sample([scene for scene in scenes() if held_out(scene)], 4)
    for scene, data in zip(asked, made_by(shapes, config, [caption(scene) for scene in asked]), strict=True):
        with av.open(io.BytesIO(data), "r") as file:
            frames = [np.asarray(frame.to_ndarray(format="rgb24"), np.uint8) for frame in file.decode(video=0)]
        assert len({frame.tobytes() for frame in frames}) == 8
        found = [one for frame in frames if (one := look(frame))]
        assert len(found) == 8
        assert {(one.colour, one.background, one.place) for one in found} == {
            (scene.colour, scene.background, scene.place)
        }
        assert max(one.x for one in found) - min(one.x for one in found) < 0.1  # it trembles, and does not jump
