"""The pictures of the docs can be read: no name lies on a line, and where nothing was told nothing is drawn."""

import math
from itertools import product
from typing import Any

import pytest

from infra.observe.panel import Board, Panel, Query
from tests.observe.plots import figure
from tests.observe.server import Line

BEGAN = 1000.0
_QUERY = Query("up", "the {{name}}")


def line(name: str, *values: float | None) -> Line:
    points = [(BEGAN + second, value) for second, value in enumerate(values) if value is not None]
    return Line({"name": name}, points)


def drawn(stacked: bool, *lines: Line) -> Any:
    pytest.importorskip("matplotlib").use("Agg")
    panels = tuple(Panel(f"panel {n}", "", "s", (_QUERY,), stacked=stacked, empty="nothing") for n in range(4))
    board = Board("board", "a board", "", (), panels)
    made = figure(board, {panel: [(_QUERY, lines if n else [])] for n, panel in enumerate(panels)}, BEGAN)
    made.draw_without_rendering()
    return made


@pytest.mark.parametrize("stacked", [True, False])
@pytest.mark.parametrize("letters", [5, 40])
def test_no_name_lies_on_a_panel_whatever_its_length(letters: int, stacked: bool) -> None:
    made = drawn(stacked, *(line(f"{n}" + "x" * letters, 1.0, 2.0, 3.0) for n in range(8)))
    names = [at.get_legend().get_window_extent() for at in made.axes if at.get_legend() is not None]
    panels = [at.get_window_extent() for at in made.axes]
    assert len(names) == 3
    assert not any(name.overlaps(panel) for name, panel in product(names, panels))
    assert min(panel.width for panel in panels) > 0.4 * made.bbox.width


def test_where_nothing_was_told_there_is_a_gap() -> None:
    made = drawn(False, line("one", 1.0, None, 3.0), line("other", 1.0, 1.0, math.nan))
    one, other = ([*map(float, each.get_ydata())] for each in made.axes[1].get_lines())
    assert (one[0], one[2], other[:2]) == (1.0, 3.0, [1.0, 1.0])
    assert math.isnan(one[1])
    assert math.isnan(other[2])
    assert [text.get_text() for text in made.axes[0].texts] == ["nothing"]


def test_lines_that_stand_on_each_other_are_added_up() -> None:
    made = drawn(True, line("one", 1.0, None, 3.0), line("other", 1.0, 1.0, 1.0))
    tops = [float(each.get_paths()[0].vertices[:, 1].max()) for each in made.axes[1].collections]
    assert tops == [3.0, 4.0]
