"""The panels of a board as Grafana lays them out, drawn from what Prometheus answered."""

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from infra.observe.panel import Board, Panel, Query
from tests.observe.server import Line

_COLUMNS = 2
_LINES_MAX = 10
_LETTERS_A_ROW = 80  # as many as stand below a panel
_BYTES = 1 << 20
_SCALES = {"percentunit": (100.0, "%"), "bytes": (1 / _BYTES, "MiB"), "currencyUSD": (1.0, "USD"), "s": (1.0, "s")}
_NAMES = {"reqps": "", "ops": "", "short": "", "celsius": "°C"}


def draw(
    board: Board, shown: Mapping[Panel, Sequence[tuple[Query, Sequence[Line]]]], folder: Path, began: float
) -> Path:
    """A PNG named after the board."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    made = figure(board, shown, began)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{board.name}.png"
    made.savefig(path, dpi=90)
    plt.close(made)
    return path


def figure(board: Board, shown: Mapping[Panel, Sequence[tuple[Query, Sequence[Line]]]], began: float) -> Any:
    from matplotlib import pyplot as plt

    rows = math.ceil(len(board.panels) / _COLUMNS)
    made: Any = plt.figure(figsize=(12, 2.9 * rows), layout="constrained")
    made.get_layout_engine().set(h_pad=0.12, w_pad=0.12)
    axes = made.subplots(rows, _COLUMNS, squeeze=False)
    made.suptitle(board.title, fontsize=14, x=0.01, ha="left")
    answered = [line for each in shown.values() for _, lines in each for line in lines]
    asked = sorted({when for line in answered for when, _ in line.points})
    for at in axes.flat[len(board.panels) :]:
        at.set_axis_off()
    for at, panel in zip(axes.flat, board.panels, strict=False):
        _panel(at, panel, shown[panel], asked, began)
        at.set_xlim(0, asked[-1] - began)
    return made


def _panel(
    at: Any, panel: Panel, shown: Sequence[tuple[Query, Sequence[Line]]], asked: Sequence[float], began: float
) -> None:
    """`asked`: the seconds since 1970 that are drawn; where a line has nothing to tell it has a gap."""
    scale, unit = _SCALES.get(panel.unit, (1.0, _NAMES.get(panel.unit, panel.unit)))
    at.set_title(f"{panel.title} [{unit}]" if unit else panel.title, fontsize=10, loc="left")
    lines = [(query, line) for query, answered in shown for line in answered if line.told]
    told = [f"{_legend(query, line)}: {scale * _last(line):,.4g}" for query, line in lines]
    if not lines or panel.kind == "stat":
        at.text(0.5, 0.5, "\n".join(told) or panel.empty, ha="center", va="center", transform=at.transAxes, fontsize=11)
        at.set_xticks([])
        at.set_yticks([])
        return
    seconds = [when - began for when in asked]
    points = [(_legend(query, line), dict(line.points)) for query, line in lines[:_LINES_MAX]]
    drawn = {name: [scale * values.get(when, math.nan) for when in asked] for name, values in points}
    if panel.stacked:
        heights = [[value if math.isfinite(value) else 0.0 for value in values] for values in drawn.values()]
        at.stackplot(seconds, heights, labels=drawn, alpha=0.7, linewidth=0)
    else:
        for name, values in drawn.items():
            at.plot(seconds, values, label=name, linewidth=1.4, alpha=0.8)
    flat = all(value == 0 or math.isnan(value) for values in drawn.values() for value in values)
    at.set_ylim(0, 1 if flat else at.get_ylim()[1])
    at.tick_params(labelsize=8)
    at.locator_params(axis="y", nbins=5)
    at.xaxis.set_major_formatter("{x:.0f} s")
    at.grid(visible=True, linewidth=0.3)
    for side in ("top", "right"):
        at.spines[side].set_visible(False)
    below = {"loc": "upper left", "bbox_to_anchor": (0, -0.12), "borderaxespad": 0, "frameon": False}
    columns = min(4, _LETTERS_A_ROW // (6 + max(map(len, drawn))))  # fewer, and narrow, rather than a narrow panel
    at.legend(fontsize=8, handlelength=1, columnspacing=1, ncols=columns, **below)


def _last(line: Line) -> float:
    return next(value for _, value in reversed(line.points) if math.isfinite(value))


def _legend(query: Query, line: Line) -> str:
    return re.sub(r"\{\{(\w+)\}\}", lambda match: line.labels.get(match[1], ""), query.legend)
