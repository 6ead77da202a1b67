"""`kiln plan`: what a pool would cost and miss, by each way to scale it."""

import math
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.table import Table

from infra.planner.compare import Plan, Setting, Task, compare
from infra.planner.draw import draw
from infra.planner.replay import House
from infra.planner.request import Request
from infra.planner.shape import Kind, flat, week
from infra.planner.trace import read_trace
from infra.scaling.threshold import item_seconds_of
from schemas.catalogue import ConfigCatalogue
from schemas.deployment import DeploymentSettings
from schemas.errors import CatalogueError, CommandError
from schemas.pools import Pool

_DEADLINES_SEEN_SECONDS = 86_400.0  # a replay goes on so long after the last arrival at most


def plan(
    trace: Annotated[Path | None, typer.Argument(help="CSV: time, config; see docs/planning.md.")] = None,
    pool: Annotated[str, typer.Option(help="Of pools.yaml.")] = "default",
    shape: Annotated[Literal["week", "flat"], typer.Option(help="Instead of a trace.")] = "week",
    gpus: Annotated[float, typer.Option(help="Of the shape: GPUs' work on the average.", min=0.01)] = 2.0,
    speed: Annotated[float, typer.Option(help="Of the week: so many times as quick.", min=0.1, max=1000)] = 8.0,
    hours: Annotated[float, typer.Option(help="Of the flat shape.", min=0.1)] = 6.0,
    deadline: Annotated[float, typer.Option(help="Seconds, where a trace has none.", min=1.0)] = 600.0,
    goal: Annotated[float, typer.Option(help="Share of deadlines to meet.", min=0.0, max=1.0)] = 0.99,
    load_seconds: Annotated[float | None, typer.Option(help="Cold start, instead of the pool's.", min=0.0)] = None,
    replicas_max: Annotated[int | None, typer.Option("--max", help="Instead of the pool's.", min=1)] = None,
    swap_seconds: Annotated[float, typer.Option(help="To load another model.", min=0.0)] = 20.0,
    models_held: Annotated[int, typer.Option(help="Models that a card holds at a time.", min=1)] = 4,
    seed: Annotated[int, typer.Option(help="Of the shape.")] = 1,
    png: Annotated[Path | None, typer.Option(help="Draw it there.")] = None,
) -> None:
    """Replay a trace or a shape with each way to scale a pool; show cost, GPU-hours, missed deadlines, and settings."""
    declared, configs = _declared(pool, load_seconds, replicas_max)
    if trace is not None:
        requests = read_trace(trace, configs, deadline_seconds=deadline)
    else:
        kinds = _kinds(configs, pool, deadline)
        drawn = week(seed, speed) if shape == "week" else flat(hours * 3600)
        requests = list(drawn.arrivals(kinds, gpus, seed))
    if not requests:
        raise CommandError("the shape brings no request; ask for more --gpus or a longer one")
    longest = max(request.deadline - request.arrival for request in requests)
    until = requests[-1].arrival + min(longest, _DEADLINES_SEEN_SECONDS) + declared.load_seconds
    house = House(declared.partitions, declared.load_seconds, swap_seconds, models_held)
    found = compare(Task(requests, declared, house, until), _item_seconds(declared, requests), goal)
    _show(found, declared, requests, goal)
    if png is not None:
        draw(found, declared.price_usd_per_hour, png)


def _declared(name: str, load_seconds: float | None, replicas_max: int | None) -> tuple[Pool, ConfigCatalogue]:
    settings = DeploymentSettings()
    try:
        pools, configs = settings.load_pools().pools, settings.load_configs()
    except CatalogueError as error:
        raise CommandError(str(error)) from error
    if name not in pools:
        raise CommandError(f"there is no pool {name!r}; {settings.pools} has: {', '.join(sorted(pools))}")
    pool = pools[name]
    changes: dict[str, float] = {}
    if load_seconds is not None:
        changes["load_seconds"] = load_seconds
    if replicas_max is not None:
        changes |= {"replicas_max": replicas_max, "partitions": max(pool.partitions, 2 * replicas_max)}
        changes["replicas_min"] = min(pool.replicas_min, replicas_max)
    return pool.model_copy(update=changes), configs


def _kinds(configs: ConfigCatalogue, pool: str, deadline: float) -> list[Kind]:
    """Each configuration of the pool as often as the others."""
    every = [each for file in configs.files.values() for each in file.versions.values()]
    kinds = [Kind(each, 1.0, "standard", deadline) for each in every if each.pool == pool and not each.retired]
    if not kinds:
        raise CommandError(f"pool {pool!r} has no configuration to draw a shape of; give a trace with seconds in it")
    return kinds


def _item_seconds(pool: Pool, requests: list[Request]) -> float:
    """As declared, else the mean of what is replayed."""
    if pool.scaling.item_seconds is not None:
        return item_seconds_of(pool, "", ConfigCatalogue(()))
    return sum(request.seconds for request in requests) / len(requests)


def _show(found: Plan, pool: Pool, requests: list[Request], goal: float) -> None:
    console = Console(highlight=False, soft_wrap=True)
    hours = requests[-1].arrival / 3600
    console.print(f"{len(requests)} requests in {hours:.1f} hours, {found.work_hours:.1f} GPU-hours of work")
    console.print(f"a replica loads for {pool.load_seconds:.0f} s and costs ${pool.price_usd_per_hour:,.2f} an hour")
    table = Table("", "GPU-hours", "cost", "missed", "in time", "busy", "most replicas")
    for setting, outcome in found.best.values():
        table.add_row(
            str(setting), f"{outcome.gpu_hours:.1f}", f"${outcome.gpu_hours * pool.price_usd_per_hour:,.2f}",
            str(outcome.missed), f"{outcome.share_in_time:.2%}", f"{outcome.busy:.0%}",
            str(max((sample.size for sample in outcome.samples), default=0)),
            style=None if outcome.share_in_time >= goal else "yellow",
        )  # fmt: skip
    console.print(table)
    advice = found.advice(goal)
    if advice is None:
        console.print(f"nothing reaches {goal:.0%} in time: allow more replicas, longer deadlines, or a quicker start")
        return
    setting, outcome = advice
    most = max(sample.size for sample in outcome.samples)
    signal = f"lagThreshold {setting.amount:.0f}" if setting.way == "lag" else f"targetGpuSeconds {setting.amount:.0f}"
    console.print(
        f"take signal {setting.way}, {signal} (wait_seconds {_wait(setting, pool, requests):.0f}), in_window_seconds "
        f"{setting.window}, out_window_seconds {pool.scaling.out_window_seconds}, replicas_min {pool.replicas_min}, "
        f"replicas_max {most}"
    )


def _wait(setting: Setting, pool: Pool, requests: list[Request]) -> float:
    """The objective that leads to the setting."""
    return setting.amount if setting.way == "gpu_seconds" else math.ceil(setting.amount * _item_seconds(pool, requests))
