"""How far a picture moves when only the way of drawing it changes.

    python -m tests.benchmarks.reproducibility

Eight pictures of the tiny random model and of the model that draws shapes, each drawn alone in one batch of four places
by an engine of one CPU thread; then the same pictures drawn otherwise, and how many of them are the same bytes, and how
many of 255 levels the others are apart. Exit status 1 where what docs/reproducibility.md promises does not hold.
"""

import asyncio
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Column, Table

from gpu_consumer.engine.protocol import Item, Picture
from gpu_consumer.engine.settings import EngineSettings
from gpu_consumer.models.digests import model_digest
from gpu_consumer.models.shapes.draw import caption, held_out, scenes
from gpu_consumer.models.shapes.kept import NAME, add_shapes
from gpu_consumer.models.tiny import make_tiny
from gpu_consumer.verify.draw import Drawer
from gpu_consumer.verify.levels import Levels, apart
from schemas.config import GenerationConfig

_PICTURES = 8
_BUCKET = 4
_TINY = "tiny-sd15"
_STEPS = {_TINY: 4, NAME: 20}


@dataclass(frozen=True, slots=True)
class Row:
    """`promised`: the bytes must be the same."""

    model: str
    what: str
    promised: bool
    same: int
    levels: Levels


class Pictures:
    """One model's configurations and the items to draw."""

    def __init__(self, directory: Path, model: str) -> None:
        self.model = model
        self._digest = model_digest(directory / model)
        prompts = [caption(scene) for scene in list(filter(held_out, scenes()))[::7][:_PICTURES]]
        self.items = [Item(str(n), prompt, "", n) for n, prompt in enumerate(prompts)]

    def config(self, dtype: str) -> GenerationConfig:
        return GenerationConfig.model_validate(
            {
                "name": "reproducibility", "version": 1, "family": "sd15", "dtype": dtype, "steps": _STEPS[self.model],
                "model": {"name": self.model, "digest": self._digest}, "guidance_scale": 3.0, "width": 64, "height": 64,
                "bucket": _BUCKET, "price": {"gpu_seconds": 0.1, "vram_bytes": 1 << 20},
            }
        )  # fmt: skip

    async def alone(self, drawer: Drawer, dtype: str = "float32", bucket: int = _BUCKET) -> list[bytes]:
        return [(await self._draw(drawer, [item], dtype, bucket))[0] for item in self.items]

    async def together(self, drawer: Drawer, dtype: str = "float32") -> list[bytes]:
        return await self._draw(drawer, self.items, dtype, _BUCKET)

    async def _draw(self, drawer: Drawer, items: Sequence[Item], dtype: str, bucket: int) -> list[bytes]:
        made = await drawer.regenerate(self.config(dtype), items, bucket)
        assert all(isinstance(each, Picture) for each in made), made
        return [each.data for each in made if isinstance(each, Picture)]


async def measure(directory: Path, models: Sequence[Pictures]) -> tuple[list[Row], str]:
    """All rows, and what they were drawn on."""
    rows: list[Row] = []
    base: dict[str, list[bytes]] = {}
    async with Drawer(EngineSettings(models_directory=directory, threads=1)) as drawer:
        ran_on = drawer.environment
        for each in models:
            first = base[each.model] = await each.alone(drawer)
            half = await each.alone(drawer, "bfloat16")
            rows += [
                _row(each, "the same again", first, await each.alone(drawer), promised=True),
                _row(each, "in a full batch", first, await each.together(drawer), promised=True),
                _row(each, "bfloat16: in a full batch", half, await each.together(drawer, "bfloat16"), promised=True),
                _row(each, "bucket 1, not 4", first, await each.alone(drawer, bucket=1)),
                _row(each, "bfloat16: bucket 1, not 4", half, await each.alone(drawer, "bfloat16", bucket=1)),
                _row(each, "bfloat16, not float32", first, half),
            ]
    for threads, what in ((1, "in another process"), (2, "two threads, not one")):
        async with Drawer(EngineSettings(models_directory=directory, threads=threads)) as drawer:
            rows += [
                _row(each, what, base[each.model], await each.alone(drawer), promised=threads == 1) for each in models
            ]
    libraries = ", ".join(f"{name} {version}" for name, version in ran_on.libraries.items())
    return rows, f"{ran_on.device}; {libraries}"


def _row(of: Pictures, what: str, one: list[bytes], other: list[bytes], *, promised: bool = False) -> Row:
    pairs = list(zip(one, other, strict=True))
    levels = [apart(*pair, "image/png") for pair in pairs]
    assert None not in levels, "all of one size"
    measured = [each for each in levels if each is not None]
    return Row(
        of.model,
        what,
        promised,
        sum(first == second for first, second in pairs),
        Levels(max(each.most for each in measured), sum(each.mean for each in measured) / len(measured)),
    )


def _table(rows: Sequence[Row], ran_on: str) -> Iterator[Table | str]:
    table = Table("model", "drawn otherwise", "promised", *(Column(name, justify="right") for name in _NUMBERS))
    for row in sorted(rows, key=lambda each: (each.model != _TINY, not each.promised)):
        table.add_row(
            row.model,
            row.what,
            "the same bytes" if row.promised else "",
            f"{row.same} of {_PICTURES}",
            str(row.levels.most),
            f"{row.levels.mean:.3g}",
        )
    yield table
    yield ran_on


_NUMBERS = ("same bytes", "levels apart at most", "in the mean")


def main() -> int:
    console = Console(highlight=False, width=120)
    os.environ.setdefault(
        "OMP_WAIT_POLICY", "PASSIVE"
    )  # two threads that spin for each other take minutes on busy cores
    with tempfile.TemporaryDirectory(prefix="promptkiln-bench-") as folder:
        directory = Path(folder)
        make_tiny(directory)
        add_shapes(directory)
        rows, ran_on = asyncio.run(measure(directory, [Pictures(directory, model) for model in _STEPS]))
    for part in _table(rows, ran_on):
        console.print(part)
    broken = [row for row in rows if row.promised and row.same < _PICTURES]
    for row in broken:
        console.print(f"BROKEN: {row.model}, {row.what}: {_PICTURES - row.same} pictures are other bytes")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
