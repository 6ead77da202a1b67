"""`kiln configs compare`: two configurations on the same prompts, on one sheet, so that a person can judge a canary."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from gpu_consumer.commands.options import Device, Models
from gpu_consumer.compare.figures import Figures, figures
from gpu_consumer.compare.prompts import Prompt, read_prompts
from gpu_consumer.engine.protocol import Ended, Item
from gpu_consumer.engine.settings import EngineSettings
from gpu_consumer.settings import GpuConsumerSettings
from gpu_consumer.sheets.comparison import Side, comparison_sheet
from gpu_consumer.verify.draw import Drawer
from schemas.config import GenerationConfig
from schemas.deployment import DeploymentSettings
from schemas.errors import CatalogueError, CommandError, told
from schemas.pools import Pool
from schemas.reference import one_config
from schemas.request import SEED_MAX
from schemas.settings import read_settings

Drawing = tuple[Figures, Sequence[Ended]]


def compare(
    one: Annotated[str, typer.Argument(metavar="A", help="NAME, NAME@VERSION or NAME:CHANNEL.", show_default=False)],
    other: Annotated[str, typer.Argument(metavar="B", help="As A.", show_default=False)],
    prompts: Annotated[Path, typer.Option(help="One prompt a line, or JSON with `prompt` and `negative_prompt`.")],
    out: Annotated[Path, typer.Option(help="Where to write the sheet, a PNG.")] = Path("compare.png"),
    images: Annotated[int, typer.Option(min=1, max=8, help="Pictures a prompt, with one seed after the other.")] = 2,
    seed: Annotated[int, typer.Option(min=0, max=SEED_MAX - 8, help="Of the first picture of each prompt.")] = 0,
    device: Device = None,
    models: Models = None,
) -> None:
    """Draw the prompts with A and with B, the same seeds, and lay them side by side with time, memory and cost.

    Loading and warming come before the clock starts. The engine's settings are those of a GPU consumer, from KILN_GPU_
    variables. Exit status: 1 where a picture failed, 2 where it cannot be drawn here.
    """
    wanted = read_prompts(prompts)
    given = {name: value for name, value in (("device", device), ("models_dir", models)) if value is not None}
    try:
        settings = read_settings(GpuConsumerSettings, **given).engine_settings()
        deployment = DeploymentSettings()
        configs, pools = deployment.load_configs(), deployment.load_pools().pools
        sides = (one_config(configs, one), one_config(configs, other))
    except (CommandError, CatalogueError) as error:
        raise CommandError(str(error), 2) from error
    drawings = asyncio.run(_draw(settings, sides, wanted, images, seed, pools))
    sheet = comparison_sheet([prompt.text for prompt in wanted], [_side(drawing, images) for drawing in drawings])
    try:
        out.write_bytes(sheet)
    except OSError as error:
        raise CommandError(f"{out} cannot be written: {told(error)}; name another file by --out", 2) from error
    for measured, _ in drawings:
        typer.echo(f"{measured.config.label} {measured.config.config_hash[:12]}")
        for line in measured.lines():
            typer.echo(f"  {line}")
    (mine, _), (theirs, _) = drawings
    ratio = theirs.gpu_seconds_a_picture / mine.gpu_seconds_a_picture if mine.gpu_seconds else float("nan")
    typer.echo(f"{theirs.config.label} takes x {ratio:.3g} the GPU-seconds of {mine.config.label}; the sheet: {out}")
    if mine.failed or theirs.failed:
        raise typer.Exit(1)


async def _draw(
    settings: EngineSettings,
    sides: Sequence[GenerationConfig],
    prompts: Sequence[Prompt],
    images: int,
    seed: int,
    pools: Mapping[str, Pool],
) -> list[Drawing]:
    """Each in an engine of its own, so that its peak of memory is not the other's too.

    Raises CommandError where a model is not here, or the engine dies.
    """
    for config in sides:  # before the other one is drawn, which may take minutes
        if not (folder := settings.models_directory / config.model.name).is_dir():
            raise CommandError(f"{config.label} needs the model {folder}, and that is not there", 2)
    items = [
        Item(f"{row}-{n}", prompt.text, prompt.negative, seed + n)
        for row, prompt in enumerate(prompts)
        for n in range(images)
    ]
    drawings: list[Drawing] = []
    for config in sides:
        async with Drawer(settings, [config]) as drawer:
            began = time.monotonic()
            ended = await drawer.draw(config, items, config.bucket)
            seconds = time.monotonic() - began
        price = pools[config.pool].price_usd_per_hour if config.pool in pools else None
        drawings.append((figures(config, ended, seconds, price), ended))
    return drawings


def _side(drawing: Drawing, images: int) -> Side:
    measured, ended = drawing
    outcomes = [one.outcome for one in ended if one.outcome is not None]
    rows = [outcomes[first : first + images] for first in range(0, len(outcomes), images)]
    return Side(f"{measured.config.label}  {measured.config.config_hash[:12]}", measured.lines(), rows)
