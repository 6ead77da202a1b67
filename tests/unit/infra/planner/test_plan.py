"""`kiln plan` as it is called: what it says where, and one sentence for what it cannot plan with."""

import json
from pathlib import Path

import pytest
from typer import Typer
from typer.testing import CliRunner, Result

from infra.planner.cli import plan
from infra.planner.trace import read_trace
from schemas.catalogue import ConfigCatalogue
from schemas.errors import CommandError

CONFIGS = Path("infra/configs").absolute()
POOLS = "pools:\n  fast: {gpu_product: H200, vram_bytes: 1, price_usd_per_hour: 4, replicas_max: 4, load_seconds: 30}\n"
CONFIG = """\
name: NAME
channels: {stable: 1}
versions:
  1:
    family: sd15
    model: {name: tiny, digest: "sha256:0000000000000000000000000000000000000000000000000000000000000000"}
    steps: 4
    guidance_scale: 5.0
    width: 64
    height: 64
    bucket: 4
    pool: fast
    price: {gpu_seconds: SECONDS, vram_bytes: 1048576}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pools.yaml").write_text(POOLS)
    rows = "".join(f"{60 + n},a,10\n" for n in range(20))
    (tmp_path / "trace.csv").write_text(f"time,config,seconds\n{rows}")
    (tmp_path / "kinds.csv").write_text("config,seconds,weight,together\na,10,1,1\nb,5,2,3\n")
    monkeypatch.setenv("KILN_POOLS", str(tmp_path / "pools.yaml"))
    return tmp_path


def kiln_plan(*arguments: object, configs: Path = CONFIGS) -> Result:
    app = Typer()
    app.command()(plan)
    environment = {"COLUMNS": "200", "KILN_CONFIGS": str(configs)}
    return CliRunner().invoke(app, ["--pool", "fast", *map(str, arguments)], env=environment)


def test_a_plan_of_a_trace_says_what_to_declare(folder: Path) -> None:
    told = kiln_plan(folder / "trace.csv")
    assert told.exit_code == 0, told.output
    assert told.stdout.startswith("20 requests")
    assert "For pool fast in pools.yaml:" in told.stdout
    assert "replaying 20 requests" in told.stderr


def test_a_shape_of_kinds_is_planned_saved_and_planned_again_as_a_trace(folder: Path) -> None:
    saved = folder / "saved.csv"
    drawn = kiln_plan("--shape", "flat", "--hours", 0.2, "--kinds", folder / "kinds.csv", "--save", saved, "--json")
    assert drawn.exit_code == 0, drawn.output
    first = json.loads(drawn.stdout)
    requests = read_trace(saved, ConfigCatalogue(()), deadline_seconds=1.0)
    assert first["requests"] == len(requests) > 100
    assert {(each.config.name, each.seconds) for each in requests} == {("a", 10.0), ("b", 5.0)}
    assert requests[-1].arrival < 720
    assert first["work_gpu_hours"] == pytest.approx(sum(each.seconds for each in requests) / 3600, abs=1e-3)
    assert [way["way"] for way in first["ways"]] == ["fixed", "utilisation", "lag", "gpu_seconds", "oracle"]
    assert first["advice"]["declare"]["scaling"]["signal"] == first["advice"]["way"]


def test_the_present_threshold_is_the_one_that_is_rendered(folder: Path) -> None:
    """By the mean price of the pool's configurations, whatever is asked for most."""
    (folder / "configs").mkdir()
    for name, seconds in (("quick", 2), ("slow", 10)):
        (folder / "configs" / f"{name}.yaml").write_text(CONFIG.replace("NAME", name).replace("SECONDS", str(seconds)))
    (folder / "past.csv").write_text("time,config\n" + "".join(f"{n},quick@1\n" for n in range(9)) + "9,slow@1\n")
    told = json.loads(kiln_plan(folder / "past.csv", "--json", configs=folder / "configs").stdout)
    assert told["now"]["setting"] == 10, "a minute's wait, 6 s each"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["trace.csv", "--pool", "slow"], "there is no pool 'slow'; pools.yaml has: fast; or set KILN_POOLS"),
        (["trace.csv", "--shape", "week"], "--shape is of a shape, and trace.csv is a trace; leave one of them out"),
        (["trace.csv", "--gpus", "2"], "--gpus is of a shape"),
        (["--kinds", "trace.csv"], "trace.csv has a column 'time'; take it out, for known are: config, seconds"),
        (["--kinds", "none.csv"], "none.csv cannot be read"),
        (["--kinds", "kinds.csv", "--gpus", "9999"], "brings more than 200 requests; ask for fewer --gpus"),
        ([], "pool 'fast' has no configuration to draw a shape of; say with --kinds what is asked for"),
        (["trace.csv", "--png", "none/plan.png"], "none/plan.png cannot be written; name a file in a folder"),
        (["--kinds", "kinds.csv", "--hours", "0.1", "--save", "none/a.csv"], "none/a.csv cannot be written"),
    ],
)
def test_what_cannot_be_planned_is_one_sentence(
    folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], sentence: str
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("KILN_POOLS", "pools.yaml")
    monkeypatch.setattr("infra.planner.cli._REQUESTS_MAX", 200)
    monkeypatch.setattr("infra.planner.cli.compare", lambda *_, **__: pytest.fail("it was replayed before"))
    told = kiln_plan(*arguments)
    assert isinstance(told.exception, CommandError), told.output
    assert sentence in str(told.exception)
    assert "\n" not in str(told.exception)
