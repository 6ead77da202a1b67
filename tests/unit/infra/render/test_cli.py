from pathlib import Path

import pytest
from typer.testing import CliRunner

from infra.render.cli import app
from schemas.errors import CommandError
from tests.unit.infra.render.conftest import EXAMPLE


def _render(out: Path, pools: Path = EXAMPLE) -> str:
    done = CliRunner().invoke(app, ["render", "--pools", str(pools), "--out", str(out)], catch_exceptions=True)
    if done.exception is not None:
        raise done.exception
    return done.output


def test_a_folder_is_written_and_what_is_no_longer_rendered_leaves_it(tmp_path: Path) -> None:
    out = tmp_path / "rendered"
    _render(out)
    assert (out / "kustomize/base/pool-slices.yaml").exists()
    _render(out, Path("infra/pools.yaml"))
    assert (out / "kustomize/base/pool-default.yaml").exists()
    assert not (out / "kustomize/base/pool-slices.yaml").exists()


def test_a_folder_that_holds_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letters.txt").write_text("mine")
    with pytest.raises(CommandError, match="holds what was not rendered; give --out another folder"):
        _render(tmp_path)
    assert (tmp_path / "letters.txt").read_text() == "mine"


def test_a_misspelt_field_is_one_sentence(tmp_path: Path) -> None:
    pools = tmp_path / "pools.yaml"
    pools.write_text(EXAMPLE.read_text().replace("replicas_max: 8", "replica_max: 8"))
    with pytest.raises(CommandError) as refused:
        _render(tmp_path / "rendered", pools)
    sentence = str(refused.value)
    assert sentence == "pools.yaml: pools.default.replica_max: there is no such field; did you mean replicas_max?"
    assert not (tmp_path / "rendered").exists()


def test_without_the_prometheus_operator_its_kinds_are_applied_nowhere(tmp_path: Path) -> None:
    pools = tmp_path / "pools.yaml"
    pools.write_text(EXAMPLE.read_text().replace("  monitoring:\n", "  monitoring:\n    operator: false\n"))
    out = tmp_path / "rendered"
    _render(out, pools)
    for path in out.rglob("*.yaml"):
        assert not {"kind: PodMonitor", "kind: PrometheusRule"} & set(path.read_text().splitlines()), path
    assert "KilnNoProgress" in (out / "prometheus/alerts.yaml").read_text()
