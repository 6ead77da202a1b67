"""A plan as a picture: replicas over time, and what each way costs and misses."""

from pathlib import Path

from infra.planner.compare import Plan
from schemas.errors import CommandError

_WAYS = {"fixed": "#888888", "utilisation": "#c78f2a", "lag": "#2a6fc7", "gpu_seconds": "#c7392a", "oracle": "#3c9a4e"}


def draw(plan: Plan, price_usd_per_hour: float, path: Path) -> None:
    """Raises CommandError where matplotlib is not installed, or the file cannot be written."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise CommandError("a plan is drawn by matplotlib; install promptkiln[infra], or leave --png out") from error
    figure = Figure(figsize=(11, 7), layout="constrained")
    over_time, money, missed = figure.subplot_mosaic([["time", "time"], ["money", "missed"]]).values()
    for way, (setting, outcome) in plan.best.items():
        hours = [sample.at / 3600 for sample in outcome.samples]
        sizes = [sample.size for sample in outcome.samples]
        over_time.step(hours, sizes, where="post", label=str(setting), color=_WAYS[way], linewidth=1)
    over_time.set(xlabel="hours", ylabel="replicas", ylim=(0, None))
    over_time.legend(fontsize="small")
    names, outcomes = list(plan.best), [outcome for _, outcome in plan.best.values()]
    colours = [_WAYS[name] for name in names]
    per_hour = price_usd_per_hour or 1.0
    money.bar(names, [each.gpu_hours * per_hour for each in outcomes], color=colours)
    money.axhline(plan.work_hours * per_hour, color="black", linestyle=":", linewidth=1)
    money.set(ylabel="US dollars" if price_usd_per_hour else "GPU-hours", title="cost; dotted: the work itself")
    missed.bar(names, [100 * (1 - each.share_in_time) for each in outcomes], color=colours)
    missed.set(ylabel="per cent", title="deadlines missed")
    try:
        figure.savefig(path, dpi=100)
    except OSError as error:
        raise CommandError(f"{path} cannot be written ({error.strerror}); name another file") from error
