"""The list of all metrics, and the page that is written from it."""

import importlib
from pathlib import Path

import pytest
import typer
from prometheus_client import CollectorRegistry, ProcessCollector
from typer.testing import CliRunner

from infra.observe import cli
from infra.observe.metrics import METRICS, labels_of, page, series
from streams.metric import PROCESS

ROOT = Path(__file__).parents[4]


def test_the_page_is_as_the_lists_have_it() -> None:
    """Write it anew: kiln metrics --write"""
    assert (ROOT / cli.PAGE).read_text(encoding="utf-8") == page()


def test_no_name_stands_for_two_things() -> None:
    names = [name for metric in METRICS for name in series(metric)]
    assert len(set(names)) == len(names)


def test_no_services_list_is_left_out() -> None:
    packages = ("admission", "streams", "gpu_consumer", "infra")
    modules = {
        path.relative_to(ROOT).with_suffix("") for package in packages for path in (ROOT / package).rglob("metrics.py")
    } - {Path("infra/observe/metrics")}
    assert modules
    for module in modules:
        listed = importlib.import_module(".".join(module.parts)).METRICS
        assert set(listed) <= set(METRICS), f"{module}.py is no part of infra/observe/metrics.py"


def test_what_is_listed_of_a_process_is_what_the_client_tells() -> None:
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    told = {sample.name for family in registry.collect() for sample in family.samples}
    if not told:
        pytest.skip("this system tells nothing of its processes")
    assert told == {metric.name for metric in PROCESS}


def test_a_series_has_its_own_labels_and_its_process() -> None:
    assert labels_of("kiln_gpu_job_wait_seconds_bucket") == frozenset({"lane", "le", "pool"})
    assert labels_of("kiln_admission_lag") == frozenset({"partition"})
    assert labels_of("kiln_gpu_job_wait_seconds") is None, "a histogram is kept under other names"
    assert labels_of("kiln_gpu_invented") is None


def test_the_command_says_that_the_page_is_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    app = typer.Typer()
    app.command()(cli.metrics)
    (tmp_path / "docs").mkdir()
    written = CliRunner().invoke(app, ["--write"])
    assert written.exit_code == 0
    assert CliRunner().invoke(app, ["--check"]).exit_code == 0
    (tmp_path / cli.PAGE).write_text("old")
    old = CliRunner().invoke(app, ["--check"])
    assert "run kiln metrics --write" in str(old.exception)
    assert CliRunner().invoke(app, []).output == page()
