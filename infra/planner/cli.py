"""`kiln plan`: what a pool would cost and miss, by each way to scale it."""

import json
import math
from itertools import islice, takewhile
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from infra.planner.compare import Task, compare
from infra.planner.draw import check, draw
from infra.planner.house import House
from infra.planner.kinds import read_kinds
from infra.planner.progress import shown
from infra.planner.report import Case, as_object, show
from infra.planner.request import Request
from infra.planner.shape import Kind, flat, week
from infra.planner.trace import read_trace, write_trace
from infra.scaling.threshold import item_seconds_of
from schemas.catalogue import ConfigCatalogue
from schemas.deployment import DeploymentSettings
from schemas.errors import CatalogueError, CommandError
from schemas.pools import Pool

_DEADLINES_SEEN_SECONDS = 86_400.0  # a replay goes on so long after the last arrival at most
_REQUESTS_MAX = 5_000_000  # some GiB, and hours
_YEAR_HOURS = 366 * 24.0
_OF_SHAPES = ("shape", "gpus", "speed", "hours", "kinds", "seed", "save")


def plan(
    context: typer.Context,
    trace: Annotated[Path | None, typer.Argument(help="CSV: time, config; see docs/planning.md.")] = None,
    pool: Annotated[str, typer.Option(help="Of pools.yaml.")] = "default",
    shape: Annotated[Literal["week", "flat"], typer.Option(help="When requests come; instead of a trace.")] = "week",
    kinds: Annotated[
        Path | None,
        typer.Option(help="What the shape asks for: CSV.", show_default="each configuration of the pool alike"),
    ] = None,
    gpus: Annotated[
        float, typer.Option(help="Of the shape: GPUs' work on the average.", min=0.01, max=1e5)
    ] = 2.0,
    speed: Annotated[
        float, typer.Option(help="Of the week: so many times as quick.", min=0.1, max=1000)
    ] = 8.0,
    hours: Annotated[
        float | None,
        typer.Option(
            help="No more of the shape.", min=0.1, max=_YEAR_HOURS,
            show_default="the week's end; 6 where it is flat",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the shape.")] = 1,
    save: Annotated[Path | None, typer.Option(help="Write what the shape asks for there, as a trace.")] = None,
    deadline: Annotated[
        float, typer.Option(help="Seconds, where a line has none.", min=1.0, max=1e7)
    ] = 600.0,
    goal: Annotated[
        float, typer.Option(help="Share of deadlines to meet.", min=0.0, max=1.0)
    ] = 0.99,
    load_seconds: Annotated[
        float | None, typer.Option(help="Cold start.", min=0.1, max=86_400, show_default="the pool's")
    ] = None,
    replicas_max: Annotated[
        int | None, typer.Option("--max", help="Most replicas.", min=1, max=1024, show_default="the pool's")
    ] = None,
    swap_seconds: Annotated[
        float, typer.Option(help="To load another model.", min=0.0, max=86_400)
    ] = 20.0,
    models_held: Annotated[int, typer.Option(help="Models that a card holds at a time.", min=1)] = 4,
    png: Annotated[Path | None, typer.Option(help="Draw it there.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:  # fmt: skip
    """Replay a trace or a shape with each way to scale a pool; show cost, GPU-hours, missed deadlines, and settings."""
    if trace is not None and (given := [each for each in _OF_SHAPES if _given(context, each)]):
        raise CommandError(f"--{given[0]} is of a shape, and {trace} is a trace; leave one of them out")
    if png is not None:
        check(png)
    now, configs = _declared(pool)
    changed = _changed(now, load_seconds, replicas_max)
    if trace is not None:
        requests = read_trace(trace, configs, deadline_seconds=deadline)
    else:
        asked = read_kinds(kinds, configs, deadline_seconds=deadline) if kinds else _kinds(configs, pool, deadline)
        requests = _drawn(asked, shape, gpus, speed, hours, seed)
        if save is not None:
            write_trace(requests, configs, save)
    longest = max(request.deadline - request.arrival for request in requests)
    until = requests[-1].arrival + min(longest, _DEADLINES_SEEN_SECONDS) + changed.load_seconds
    task = Task(requests, changed, House(changed.partitions, changed.load_seconds, swap_seconds, models_held), until)
    case = Case(pool, now, task, _item_seconds(changed, requests), goal)
    with shown(len(requests), Console(stderr=True, highlight=False)) as progress:
        present = _present_seconds(pool, changed, configs, requests)
        found = compare(task, case.item_seconds, goal, progress, present_seconds=present)
    if as_json:
        Console().print_json(json.dumps(as_object(found, case)))
    else:
        show(found, case, Console(highlight=False, soft_wrap=True))
    if png is not None:
        draw(found, case, png)


def _given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _declared(name: str) -> tuple[Pool, ConfigCatalogue]:
    settings = DeploymentSettings()
    try:
        pools, configs = settings.load_pools().pools, settings.load_configs()
    except CatalogueError as error:
        raise CommandError(str(error)) from error
    if name not in pools:
        raise CommandError(
            f"there is no pool {name!r}; {settings.pools} has: {', '.join(sorted(pools))}; or set KILN_POOLS to "
            "another file"
        )
    return pools[name], configs


def _changed(pool: Pool, load_seconds: float | None, replicas_max: int | None) -> Pool:
    """As the options have it, with partitions enough."""
    changes: dict[str, Any] = {}
    if load_seconds is not None:
        changes["load_seconds"] = load_seconds
    if replicas_max is not None:
        changes |= {"replicas_max": replicas_max, "partitions": max(pool.partitions, 2 * replicas_max)}
        changes["replicas_min"] = min(pool.replicas_min, replicas_max)
    return pool.model_copy(update=changes)


def _drawn(kinds: list[Kind], shape: str, gpus: float, speed: float, hours: float | None, seed: int) -> list[Request]:
    most = math.inf if hours is None else hours * 3600
    drawn = week(seed, speed) if shape == "week" else flat(6 * 3600 if hours is None else most)
    arrivals = takewhile(lambda request: request.arrival < most, drawn.arrivals(kinds, gpus, seed))
    requests = list(islice(arrivals, _REQUESTS_MAX + 1))
    if not requests:
        raise CommandError("the shape brings no request; ask for more --gpus or more --hours")
    if len(requests) > _REQUESTS_MAX:
        raise CommandError(
            f"the shape brings more than {_REQUESTS_MAX:,} requests; ask for fewer --gpus, fewer --hours, a higher "
            "--speed, or --kinds of more seconds"
        )
    return requests


def _kinds(configs: ConfigCatalogue, pool: str, deadline: float) -> list[Kind]:
    """Each configuration of the pool as often as the others."""
    every = [each for file in configs.files.values() for each in file.versions.values()]
    kinds = [Kind(each, 1.0, "standard", deadline) for each in every if each.pool == pool and not each.retired]
    if not kinds:
        raise CommandError(
            f"pool {pool!r} has no configuration to draw a shape of; say with --kinds what is asked for, as "
            "infra/examples/kinds.csv does"
        )
    return kinds


def _item_seconds(pool: Pool, requests: list[Request]) -> float:
    """As declared, else the mean of what is replayed."""
    if pool.scaling.item_seconds is not None:
        return pool.scaling.item_seconds
    return sum(request.seconds for request in requests) / len(requests)


def _present_seconds(name: str, pool: Pool, configs: ConfigCatalogue, requests: list[Request]) -> float | None:
    """What the renderer computes the threshold from, where the pool's configurations are those that are replayed."""
    replayed = {request.config.label: request.config for request in requests}
    if any(configs.labelled(label) != config for label, config in replayed.items()):
        return None
    try:
        return item_seconds_of(pool, name, configs)
    except CatalogueError:
        return None  # it has none: the trace is of another pool's
