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

    rows = math.ceil(len(board.panels) / _COLUMNS)
    figure, axes = plt.subplots(rows, _COLUMNS, figsize=(13, 2.7 * rows), squeeze=False)
    figure.suptitle(board.title, fontsize=13, x=0.02, ha="left")
    for at in axes.flat:
        at.set_axis_off()
    for at, panel in zip(axes.flat, board.panels, strict=False):
        at.set_axis_on()
        _panel(at, panel, shown[panel], began)
    figure.tight_layout(rect=(0, 0, 1, 0.985))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{board.name}.png"
    figure.savefig(path, dpi=80)
    plt.close(figure)
    return path


def _panel(at: Any, panel: Panel, shown: Sequence[tuple[Query, Sequence[Line]]], began: float) -> None:
    scale, unit = _SCALES.get(panel.unit, (1.0, _NAMES.get(panel.unit, panel.unit)))
    at.set_title(f"{panel.title} [{unit}]" if unit else panel.title, fontsize=9, loc="left")
    at.tick_params(labelsize=7)
    lines = [(query, line) for query, answered in shown for line in answered if line.told]
    if not lines:
        at.text(0.5, 0.5, panel.empty or "", ha="center", va="center", transform=at.transAxes, fontsize=8)
        return
    if panel.kind == "stat":
        told = [f"{_legend(query, line)}: {scale * _last(line):.4g}" for query, line in lines]
        at.text(0.5, 0.5, "\n".join(told), ha="center", va="center", transform=at.transAxes, fontsize=11)
        at.set_xticks([])
        at.set_yticks([])
        return
    for query, line in lines[:_LINES_MAX]:
        seconds = [when - began for when, _ in line.points]
        at.plot(seconds, [scale * value for _, value in line.points], label=_legend(query, line), linewidth=1)
    at.set_ylim(bottom=0)
    at.grid(visible=True, linewidth=0.3)
    at.legend(fontsize=6, loc="upper left", ncols=2, framealpha=0.6)


def _last(line: Line) -> float:
    return next(value for _, value in reversed(line.points) if math.isfinite(value))


def _legend(query: Query, line: Line) -> str:
    return re.sub(r"\{\{(\w+)\}\}", lambda match: line.labels.get(match[1], ""), query.legend)
