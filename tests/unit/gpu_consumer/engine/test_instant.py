import io
import subprocess
import sys

from PIL import Image

from gpu_consumer.engine.instant import SIDE, InstantEngine, png
from gpu_consumer.engine.protocol import Batch, Item, Pulse
from schemas.config import GenerationConfig
from tests.streaming import Heard, run


def config(**different: object) -> GenerationConfig:
    body = {
        "name": "c",
        "version": 1,
        "family": "sd15",
        "model": {"name": "m", "digest": "sha256:" + "0" * 64},
        "steps": 1,
        "guidance_scale": 1,
        "width": 64,
        "height": 64,
        "price": {"gpu_seconds": 1, "vram_bytes": 1},
    }
    return GenerationConfig.model_validate({**body, **different})


async def picture(config: GenerationConfig, item: Item) -> bytes:
    engine = InstantEngine()
    await engine.start()
    (picture,) = (await run(engine, config, item)).pictures.values()
    return picture.data


def test_a_png_by_hand_is_what_pillow_reads() -> None:
    pixels = bytes(range(2 * 3 * 3))
    image = Image.open(io.BytesIO(png(2, 3, pixels)))
    assert (image.size, image.mode) == ((2, 3), "RGB")
    assert image.tobytes() == pixels


async def test_config_prompt_and_seed_make_the_picture() -> None:
    item = Item("a", "a cat", "", 0)
    variants = {
        await picture(config(), item),
        await picture(config(steps=2), item),
        await picture(config(), Item("a", "a dog", "", 0)),
        await picture(config(), Item("a", "a cat", "x", 0)),
        await picture(config(), Item("a", "a cat", "", 1)),
    }
    assert len(variants) == 5
    assert await picture(config(), Item("another key", "a cat", "", 0)) in variants
    # A price does not change a pixel.
    assert await picture(config(price={"gpu_seconds": 2, "vram_bytes": 2}), item) in variants
    assert all(Image.open(io.BytesIO(data)).size == (SIDE, SIDE) for data in variants)


async def test_a_model_stays_when_nothing_runs() -> None:
    engine = InstantEngine()
    await engine.start()
    heard = Heard(engine)
    for n in range(3):
        await engine.submit(Batch(config(), (Item(str(n), "", "", 0),)))
        await heard.until_ended([str(n)])
    assert [pulse.models for pulse in heard.of(Pulse)] == [(), *[(config().model_key,)] * 3]


def test_the_consumers_side_of_an_engine_imports_no_torch() -> None:
    modules = "gpu_consumer.engine.instant, gpu_consumer.engine.process, gpu_consumer.models.digests"
    heavy = "{'torch', 'diffusers', 'transformers', 'numpy', 'PIL'}"
    code = f"import sys, {modules}; sys.exit(str({heavy} & sys.modules.keys()) if {heavy} & sys.modules.keys() else 0)"
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(sys.path)})
