"""A missed bar fails the run, a missed goal does not, and the file is what the other benchmarks' readers expect."""

import json
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from tests.benchmarks import report as module
from tests.benchmarks.report import Measure, report


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "FOLDER", tmp_path / "bench")
    return tmp_path / "bench"


def _console() -> Console:
    return Console(file=StringIO(), width=120)


@pytest.mark.parametrize(
    ("measure", "verdict"),
    [
        (Measure(5, "x", "higher"), ""),
        (Measure(5, "x", "higher", bar=5), "met"),
        (Measure(5, "x", "higher", goal=6, bar=5), "met"),
        (Measure(6, "x", "higher", goal=6, bar=5), "goal"),
        (Measure(4.9, "x", "higher", bar=5), "MISSED"),
        (Measure(5, "x", "lower", goal=1, bar=5), "met"),
        (Measure(1, "x", "lower", goal=1, bar=5), "goal"),
        (Measure(5.1, "x", "lower", bar=5), "MISSED"),
    ],
)
def test_a_bar_is_met_or_missed(measure: Measure, verdict: str) -> None:
    assert measure.verdict == verdict
    assert measure.met is (verdict != "MISSED")


def test_the_file_has_every_measure_the_commit_and_the_date(folder: Path) -> None:
    measures = {
        "fact": Measure(1.5, "ms", "lower"),
        "ratio": Measure(0.3, "x", "higher", goal=0.5, bar=0.2, peer="loop"),
    }
    assert report("trial", measures, _console())
    written = json.loads((folder / "trial.json").read_text(encoding="utf-8"))
    assert written["measures"] == {
        "fact": {"value": 1.5, "goal": None, "bar": None, "unit": "ms", "better": "lower"},
        "ratio": {"value": 0.3, "goal": 0.5, "bar": 0.2, "unit": "x", "better": "higher"},
    }
    assert set(written) == {"measures", "commit", "date"}


def test_one_missed_bar_fails_the_report_and_is_written_all_the_same(folder: Path) -> None:
    measures = {"good": Measure(1, "x", "higher", bar=0.5), "bad": Measure(1, "x", "higher", bar=2)}
    assert not report("trial", measures, _console())
    assert (folder / "trial.json").exists()
