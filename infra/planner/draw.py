"""A plan as a picture: what arrives; and for each way a row with its replicas over time, its cost and its misses."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from infra.planner.compare import Plan, Setting, Way
from infra.planner.replay import Outcome
from infra.planner.report import Case, missed, named
from schemas.counted import counted
from schemas.errors import CommandError
from schemas.request import LANES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WAYS: dict[Way, str] = {
    "fixed": "#7a7a7a",
    "utilisation": "#c78f2a",
    "lag": "#2a6fc7",
    "gpu_seconds": "#7d4bb5",
    "oracle": "#3c9a4e",
}
_LANES = {"interactive": "#35618f", "standard": "#7fa8cf", "bulk": "#cfd9e3"}
_MISSED = "#d0021b"
_MARKS: dict[str, Any] = {"marker": "|", "linestyle": "", "color": _MISSED, "markersize": 7, "markeredgewidth": 0.8}
_ADVISED = "#fff6d5"
_SUFFIXES = (".png", ".svg", ".pdf")
_BINS = 180  # of the time that is drawn
_ABOVE = 1.35  # of the highest line: room for the marks of what is missed


def check(path: Path) -> None:
    """Before minutes are spent. Raises CommandError where a plan could not be drawn there."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise CommandError("a plan is drawn by matplotlib; install promptkiln[infra], or leave --png out") from error
    if path.suffix.lower() not in _SUFFIXES:
        raise CommandError(f"{path} cannot be drawn; name a file that ends with {' or '.join(_SUFFIXES)}")
    if not path.parent.is_dir() or path.is_dir():
        raise CommandError(f"{path} cannot be written; name a file in a folder that is there")


def draw(plan: Plan, case: Case, path: Path) -> None:
    """Raises CommandError where matplotlib is not installed, or the file cannot be written."""
    check(path)
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    rows = [("now: ", *plan.declared), *(("", *pair) for pair in plan.best.values())]
    figure = Figure(figsize=(12, 1.25 * len(rows) + 2.8), layout="constrained")
    figure.suptitle(_title(plan, case), fontsize=11)
    heights = [1.6] + [1.0] * len(rows)
    grid = figure.subplots(len(rows) + 1, 3, sharex="col", width_ratios=[6, 1.6, 1.6], height_ratios=heights)
    _arrivals(grid[0, 0], grid[0, 1], case)
    _head(grid[0, 1], "cost\n(dotted: the work alone)")
    _head(grid[0, 2], f"deadlines missed\n(dashed: the goal, {100 * (1 - case.goal):.3g}%)")
    advice = plan.advice(case.goal)
    most = max(outcome.replicas_most for _, _, outcome in rows)
    for (prefix, setting, outcome), (replicas, cost, misses) in zip(rows, grid[1:], strict=True):
        advised = (setting, outcome) == advice
        _replicas(replicas, f"{prefix}{named(setting)}, {setting}{'   – take this' * advised}", setting, outcome)
        replicas.set_ylim(0, most * _ABOVE)
        replicas.yaxis.set_major_locator(MaxNLocator(4, integer=True))
        _bar(cost, _money(case, outcome.gpu_hours), case.cost(outcome.gpu_hours), _WAYS[setting.way])
        cost.axvline(_money(case, plan.work_hours), color="black", linestyle=":", linewidth=1)
        _bar(misses, 100 * (1 - outcome.share_in_time), missed(outcome), _MISSED)
        misses.axvline(100 * (1 - case.goal), color="black", linestyle="--", linewidth=1)
        for axes in (replicas, cost, misses) if advised else ():
            axes.set_facecolor(_ADVISED)
    priced = case.task.pool.price_usd_per_hour > 0
    for axes, label in zip(grid[-1], ("hours", "US dollars" if priced else "GPU-hours", "% of requests"), strict=True):
        axes.set_xlabel(label, fontsize=9)
        axes.set_xlim(left=0)
    grid[-1, 0].xaxis.set_major_locator(MaxNLocator(9, steps=[1, 2, 3, 6, 10]))
    grid[-1, 0].set_xlim(right=max(outcome.samples[-1].at for _, _, outcome in rows) / 3600)
    grid[-1, 2].set_xlim(right=max(grid[-1, 2].get_xlim()[1], 150 * (1 - case.goal)))
    try:
        figure.savefig(path, dpi=100)
    except OSError as error:
        raise CommandError(f"{path} cannot be written ({error.strerror}); name another file") from error


def _title(plan: Plan, case: Case) -> str:
    pool, requests = case.task.pool, counted(len(case.task.requests), "request")
    return (
        f"Pool {case.name}, ${pool.price_usd_per_hour:,.2f} for an hour of a replica, cold start {pool.load_seconds:g} "
        f"s: {requests}, {plan.work_hours:,.1f} GPU-hours of work in {case.hours:,.1f} hours"
    )


def _head(axes: "Axes", text: str) -> None:
    axes.axis("off")
    axes.text(0.5, 0.0, text, transform=axes.transAxes, ha="center", va="bottom", fontsize=9)


def _arrivals(axes: "Axes", key: "Axes", case: Case) -> None:
    """GPU-seconds that are asked for in a second: so many replicas would have to work to keep up."""
    end = case.task.requests[-1].arrival
    width = max(60.0, end / _BINS)
    count = int(end / width) + 1
    asked = {lane: [0.0] * count for lane in LANES}
    for request in case.task.requests:
        asked[request.lane][int(request.arrival / width)] += request.seconds / width
    edges = [number * width / 3600 for number in range(count + 1)]
    below = [0.0] * count
    for lane in LANES:
        if any(asked[lane]):
            top = [low + more for low, more in zip(below, asked[lane], strict=True)]
            axes.stairs(top, edges, baseline=below, fill=True, color=_LANES[lane], label=lane)
            below = top
    axes.set_ylim(bottom=0)
    axes.set_title("What arrives: GPU-seconds of work in a second, by lane", fontsize=9, loc="left")
    axes.set_ylabel("GPUs", fontsize=8)
    handles, labels = axes.get_legend_handles_labels()
    (mark,) = key.plot([], [], **_MARKS)
    key.legend([*handles, mark], [*labels, "a deadline is missed"], loc="upper left", fontsize=8, frameon=False)


def _replicas(axes: "Axes", title: str, setting: Setting, outcome: Outcome) -> None:
    hours, sizes = ([each.at / 3600 for each in outcome.samples], [each.size for each in outcome.samples])
    axes.fill_between(hours, sizes, step="post", color=_WAYS[setting.way], alpha=0.35, linewidth=0)
    axes.step(hours, sizes, where="post", color=_WAYS[setting.way], linewidth=1)
    missed_at = [each / 3600 for each in outcome.missed_at]
    axes.plot(missed_at, [0.9] * len(missed_at), transform=axes.get_xaxis_transform(), **_MARKS)
    axes.set_title(title, fontsize=9, loc="left", pad=3)
    axes.set_ylabel("replicas", fontsize=8)


def _bar(axes: "Axes", amount: float, text: str, colour: str) -> None:
    axes.barh([0], [amount], color=colour, height=0.6)
    axes.set_title(text, fontsize=9, loc="right", pad=3)
    axes.set(yticks=[], ylim=(-0.7, 0.7))


def _money(case: Case, gpu_hours: float) -> float:
    return gpu_hours * (case.task.pool.price_usd_per_hour or 1.0)
