"""The report that every benchmark writes: measures with their goals and bars, the commit and the date.

.kiln/bench/NAME.json   {"measures": {name: {"value", "goal", "bar", "unit", "better"}}, "commit", "date"}
"""

import json
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[2]
_TABLE_WIDTH = 100
FOLDER = ROOT / ".kiln" / "bench"


@dataclass(frozen=True, slots=True)
class Measure:
    """One number. A bar fails the run where it is missed; a goal is what we would like. None: a fact without either.

    Bars belong on ratios to a peer of the same run: a number alone says how fast the machine was that day.
    """

    value: float
    unit: str
    better: Literal["higher", "lower"]
    goal: float | None = None
    bar: float | None = None
    peer: str = ""

    @property
    def met(self) -> bool:
        return self.bar is None or _reaches(self.value, self.bar, self.better)

    @property
    def verdict(self) -> str:
        if self.bar is None:
            return ""
        if not self.met:
            return "MISSED"
        return "met" if self.goal is None or not _reaches(self.value, self.goal, self.better) else "goal"


def _reaches(value: float, mark: float, better: str) -> bool:
    return value >= mark if better == "higher" else value <= mark


def report(name: str, measures: Mapping[str, Measure], console: Console) -> bool:
    """Print the table, write the file, and say whether every bar was met."""
    # A table is wider than the 80 columns that rich takes where there is no terminal.
    console.width = max(console.width, _TABLE_WIDTH)
    console.print(_table(name, measures))
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{name}.json"
    body = {
        "measures": {
            each: {field: value for field, value in asdict(measure).items() if field != "peer"}
            for each, measure in measures.items()
        },
        "commit": _commit(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    path.write_text(json.dumps(body, indent=2) + "\n", encoding="utf-8")
    console.print(f"written to {path.relative_to(ROOT)}")
    return all(measure.met for measure in measures.values())


def _table(name: str, measures: Mapping[str, Measure]) -> Table:
    table = Table(title=f"bench-{name}")
    for heading in ("measure", "value", "unit", "peer", "limit", "goal", ""):
        table.add_column(heading, justify="right" if heading in {"value", "limit", "goal"} else "left", no_wrap=True)
    for each, measure in measures.items():
        sign = "≥" if measure.better == "higher" else "≤"
        limit, goal = (f"{sign} {mark:g}" if mark is not None else "" for mark in (measure.bar, measure.goal))
        style = "red" if not measure.met else None
        cells = (each, f"{measure.value:,.4g}", measure.unit, measure.peer, limit, goal, measure.verdict)
        table.add_row(*cells, style=style)
    return table


def _commit() -> str:
    """The commit that was measured, with a plus where files differ from it; `unknown` outside a repository."""
    try:
        commit = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.strip()
        changes = subprocess.run(
            ["git", "status", "--porcelain", "--untracked-files=no"],
            cwd=ROOT, capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return commit + ("+" if changes.strip() else "")
