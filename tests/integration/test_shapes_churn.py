"""200 sentences that training never saw, in a batch that churns: each gets its own picture, the one it gets alone.

Whatever mixes up two slots shows here: in a colour, in a place, and in the last bit.
"""

import asyncio
import io
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gpu_consumer.engine.process import EngineProcess
from gpu_consumer.engine.protocol import Batch, Drawn, Ended, Item, Joined, Picture, Pulse
from gpu_consumer.engine.settings import EngineSettings
from gpu_consumer.models.digests import model_digest
from gpu_consumer.models.shapes.draw import Scene, caption, held_out, scenes
from gpu_consumer.models.shapes.judge import look
from gpu_consumer.models.shapes.kept import NAME, add_shapes
from schemas.config import GenerationConfig

COUNT = 200
SOLOS = 40  # the rest are drawn alone by `make soak`: alone each costs three times what it costs in company
STEPS = range(15, 26)
BUCKET = 4


@dataclass(frozen=True, slots=True)
class Wish:
    scene: Scene
    config: GenerationConfig
    item: Item


@dataclass(slots=True)
class Churn:
    """What came of a run. `company`: how many others were there when it joined."""

    pictures: dict[str, Picture] = field(default_factory=dict)
    company: dict[str, int] = field(default_factory=dict)
    moments: set[int] = field(default_factory=set)  # steps of the engine at which somebody joined


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("shapes")
    add_shapes(directory)
    return directory


def shapes_config(directory: Path, steps: int) -> GenerationConfig:
    return GenerationConfig.model_validate(
        {
            "name": f"shapes{steps}",
            "version": 1,
            "family": "sd15",
            "model": {"name": NAME, "digest": model_digest(directory / NAME)},
            "dtype": "float32",
            "steps": steps,
            "guidance_scale": 3.0,
            "width": 64,
            "height": 64,
            "bucket": BUCKET,
            "price": {"gpu_seconds": 0.1, "vram_bytes": 1 << 20},
        }
    )


def wishes(directory: Path, count: int, seed: int) -> list[Wish]:
    """No two alike; one kind, so they share batches, and each with steps of its own."""
    rng = random.Random(seed)
    configs = [shapes_config(directory, steps) for steps in STEPS]
    asked = rng.sample([scene for scene in scenes() if held_out(scene)], count)
    return [
        Wish(scene, rng.choice(configs), Item(str(n), caption(scene), "", rng.randrange(2**32)))
        for n, scene in enumerate(asked)
    ]


async def churn(engine: EngineProcess, asked: Sequence[Wish], rng: random.Random) -> Churn:
    """A few are sent at a time, now more than there are slots and now fewer, so they meet at any step."""
    made = Churn()
    waiting = list(reversed(asked))
    sent: set[str] = set()
    inside: set[str] = set()
    steps = 0
    while len(made.pictures) < len(asked):
        if len(sent) < rng.randrange(1, 2 * BUCKET + 2):
            for _ in range(min(len(waiting), rng.randrange(1, BUCKET + 1))):
                wish = waiting.pop()
                sent.add(wish.item.key)
                await engine.submit(Batch(wish.config, (wish.item,)))
        for event in await engine.events():
            if isinstance(event, Pulse):
                steps = event.steps
            elif isinstance(event, Joined):
                made.moments.add(steps)
                inside.update(event.keys)
                made.company |= dict.fromkeys(event.keys, len(inside) - 1)
            elif isinstance(event, Drawn):
                inside.difference_update(event.keys)
            elif isinstance(event, Ended):
                sent.discard(event.key)
                inside.discard(event.key)
                assert isinstance(event.outcome, Picture), event.outcome
                made.pictures[event.key] = event.outcome
    return made


async def alone(engine: EngineProcess, asked: Iterable[Wish]) -> dict[str, bytes]:
    """One after the other, nothing beside it but padding."""
    drawn: dict[str, bytes] = {}
    for wish in asked:
        await engine.submit(Batch(wish.config, (wish.item,)))
        while wish.item.key not in drawn:
            for event in await engine.events():
                if isinstance(event, Ended):
                    assert isinstance(event.outcome, Picture), event.outcome
                    drawn[event.key] = event.outcome.data
    return drawn


async def draw_both_ways(
    directory: Path, asked: Sequence[Wish], solos: Sequence[Wish], seed: int
) -> tuple[Churn, Mapping[str, bytes]]:
    """In company in one engine, and meanwhile alone in another."""
    engines = [EngineProcess(EngineSettings(models_directory=directory)) for _ in range(2)]
    try:
        await asyncio.gather(*(engine.start() for engine in engines))
        return await asyncio.gather(churn(engines[0], asked, random.Random(seed)), alone(engines[1], solos))
    finally:
        await asyncio.gather(*(engine.stop() for engine in engines))


def check(asked: Sequence[Wish], made: Churn, solos: Mapping[str, bytes]) -> str:
    """Fails where anything is mixed up; returns the figures in a sentence."""
    assert len(made.pictures) == len(asked)
    met = sum(company > 0 for company in made.company.values())
    assert met >= 0.9 * len(asked), f"only {met} had company: this was no churning batch"
    assert len(made.moments) >= len(asked) / 5, f"all joined at {len(made.moments)} moments: this was no churning batch"
    unlike = [key for key, data in solos.items() if made.pictures[key].data != data]
    assert not unlike, f"{len(unlike)} of {len(solos)} differ from what they are alone: {unlike[:10]}"
    seen = {
        wish.item.key: look(np.asarray(Image.open(io.BytesIO(made.pictures[wish.item.key].data)).convert("RGB")))
        for wish in asked
    }
    colours = sum((one := seen[w.item.key]) is not None and one.colour == w.scene.colour for w in asked)
    grounds = sum((one := seen[w.item.key]) is not None and one.background == w.scene.background for w in asked)
    places = sum((one := seen[w.item.key]) is not None and one.place == w.scene.place for w in asked)
    figures = (
        f"{len(asked)} pictures, {met} in company, joined at {len(made.moments)} moments; {len(solos)} drawn alone, "
        f"all equal; colour {colours}, background {grounds}, place {places} right"
    )
    assert colours >= 0.98 * len(asked), figures
    assert grounds >= 0.98 * len(asked), figures
    assert places >= 0.90 * len(asked), figures
    return figures


@pytest.mark.parametrize("seed", [0])
async def test_each_of_200_gets_the_picture_it_asked_for(shapes: Path, seed: int) -> None:
    # case DIF-07, DIF-10
    asked = wishes(shapes, COUNT, seed)
    solos = random.Random(seed).sample(asked, SOLOS)
    made, drawn = await draw_both_ways(shapes, asked, solos, seed)
    print(check(asked, made, drawn))
