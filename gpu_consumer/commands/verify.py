"""`kiln verify`: draw again what a result says was drawn, and compare."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from gpu_consumer.commands.options import Device, Models
from gpu_consumer.engine.protocol import Item, Picture
from gpu_consumer.engine.settings import EngineSettings
from gpu_consumer.settings import GpuConsumerSettings
from gpu_consumer.verify.draw import Drawer
from gpu_consumer.verify.judge import Judgement, Verdict, differences, judge
from gpu_consumer.verify.sources import EXIT_CANNOT, results_of, wishes_of
from gpu_consumer.verify.wish import Wish, config_of
from schemas.catalogue import ConfigCatalogue
from schemas.deployment import DeploymentSettings
from schemas.errors import CatalogueError, CommandError
from schemas.result import Artifact, Succeeded
from schemas.settings import read_settings
from streams.artifacts import read

EXIT_DIFFERENT = 1
_EXITS: dict[Verdict, int] = {
    "identical": 0,
    "within tolerance": 0,
    "different": EXIT_DIFFERENT,
    "cannot": EXIT_CANNOT,
}


def verify(
    result: Annotated[
        str,
        typer.Argument(
            help="A file of result events, one JSON a line, as `kiln results --json` prints; - for stdin; or "
            "TENANT/REQUEST-ID, looked up in the results topic.",
            show_default=False,
        ),
    ],
    request: Annotated[
        Path | None,
        typer.Option(help="The requests as they were sent, one JSON a line. Absent, the decisions topic is read."),
    ] = None,
    prompt: Annotated[str | None, typer.Option(help="The prompt, instead of the whole request.")] = None,
    negative: Annotated[str, typer.Option(help="The negative prompt that goes with it.")] = "",
    tolerance_levels: Annotated[
        int, typer.Option(min=0, max=255, help="How far a colour channel may be off and pass; 0 wants the same bytes.")
    ] = 2,
    device: Device = None,
    models: Models = None,
) -> None:
    """Draw the pictures of a result again and compare them with those in the store.

    Exit status: 0 identical or within the tolerance, 1 different, 2 it cannot be told. The engine's settings are those
    of a GPU consumer, from KILN_GPU_ variables.
    """
    if prompt is not None and request is not None:
        raise CommandError("give a prompt or a request, not both", EXIT_CANNOT)
    given = {name: value for name, value in (("device", device), ("models_dir", models)) if value is not None}
    try:
        settings = read_settings(GpuConsumerSettings, **given).engine_settings()
        configs = DeploymentSettings().load_configs()
    except (CommandError, CatalogueError) as error:
        raise CommandError(str(error), EXIT_CANNOT) from error
    results = results_of(result)
    wishes = wishes_of(results, request, Wish(prompt, negative) if prompt is not None else None)
    code = asyncio.run(_verify(results, wishes, configs, settings, tolerance_levels))
    if code:
        raise typer.Exit(code)


async def _verify(
    results: Sequence[Succeeded],
    wishes: dict[str, Wish],
    configs: ConfigCatalogue,
    settings: EngineSettings,
    tolerance_levels: int,
) -> int:
    codes = set()
    async with Drawer(settings) as drawer:
        for result in results:
            wish = wishes[result.job_id]
            try:
                config = config_of(result.config, wish, configs)
                made = await drawer.regenerate(config, _items(result, wish), result.bucket)
            except CommandError as error:  # of this one; the others may be told
                typer.echo(f"{result.tenant}/{result.request_id}:\n  cannot: {error}")
                codes.add(EXIT_CANNOT)
                continue
            typer.echo(f"{result.tenant}/{result.request_id}: {config.label}, bucket {result.bucket}")
            for n, (artifact, again) in enumerate(zip(result.artifacts, made, strict=True)):
                judgement = _judged(artifact, again, tolerance_levels)
                codes.add(_EXITS[judgement.verdict])
                typer.echo(f"  picture {n}, seed {artifact.seed}: {judgement}")
            smaller = min((one.bucket for one in made if isinstance(one, Picture)), default=result.bucket)
            if smaller < result.bucket:
                typer.echo(f"  note: the batch did not fit here and was drawn in a bucket of {smaller}")
            for difference in differences(result.environment, drawer.environment):
                typer.echo(f"  note: {difference}")
    return EXIT_DIFFERENT if EXIT_DIFFERENT in codes else max(codes, default=EXIT_CANNOT)


def _items(result: Succeeded, wish: Wish) -> list[Item]:
    return [
        Item(str(n), wish.prompt, wish.negative_prompt, artifact.seed) for n, artifact in enumerate(result.artifacts)
    ]


def _judged(artifact: Artifact, again: object, tolerance_levels: int) -> Judgement:
    try:
        stored: bytes | str = read(artifact.uri)
    except CommandError as error:
        stored = str(error)
    drawn = again.data if isinstance(again, Picture) else str(getattr(again, "message", again))
    return judge(artifact, stored, drawn, tolerance_levels)
