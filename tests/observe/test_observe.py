"""Must run by itself: `make observe-test`. With PLOTS=folder what was seen is drawn there."""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from infra.observe.alerts import rule_groups, rules
from infra.observe.dashboards import BOARDS
from infra.observe.panel import RATE as RATE_OF_GRAFANA
from infra.observe.panel import Board, Panel
from infra.observe.rule import Alert, Recording
from tests.conftest import missing_service
from tests.observe.scene import POOLS, Scene, scene
from tests.observe.server import RATE, Line, Prometheus, prometheus
from tests.prometheus import NoPrometheus, tools
from tests.promql import selectors

pytestmark = pytest.mark.timeout(900)

_TOLD_SECONDS = 300.0
_ROUND_SECONDS = 8.0
_FULL = "sum(kiln_gpu_backlog_pictures) > 30"  # a slow machine is given no more than it can draw
_PLOTS_SECONDS = 90.0  # of a curve that one can look at
NO_CARD = "no card here that NVML tells of"
# What a pipeline without a card cannot tell, and why.
ABSENT = {
    "kiln_gpu_card_memory_used_peak_bytes": NO_CARD,
    "kiln_gpu_card_memory_total_bytes": NO_CARD,
    "kiln_gpu_card_fault": NO_CARD,
}
PANELS = [(board, panel) for board in BOARDS for panel in board.panels]


@dataclass(frozen=True, slots=True)
class Watched:
    """A pipeline that ran, as Prometheus saw it."""

    server: Prometheus
    scene: Scene
    began: float
    ended: float

    def ask(self, expr: str) -> list[Line]:
        return self.server.range(as_asked(expr), self.began, self.ended)

    def rules(self) -> list[Alert | Recording]:
        return [rule for group in rules(POOLS, self.scene.catalogue).values() for rule in group]


def as_asked(expr: str) -> str:
    """As Grafana asks with everything chosen."""
    for name in ("pool", "tenant", "instance"):
        expr = expr.replace(f"${name}", ".*")
    return expr.replace(RATE_OF_GRAFANA, RATE)


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """Under load until every panel that must show something does, or for long enough to say which does not."""
    try:
        found = tools()
    except NoPrometheus as error:
        missing_service(str(error))
    folder = tmp_path_factory.mktemp("observe")
    with (
        scene(folder) as made,
        prometheus(found, folder / "prometheus", made.ports, rule_groups(POOLS, made.catalogue)) as server,
    ):
        began = time.time()
        least = _PLOTS_SECONDS if os.environ.get("PLOTS") else 0.0
        while True:
            if len(server.range(_FULL, time.time(), time.time())) == 0:
                made.load()
            round_ends = time.monotonic() + _ROUND_SECONDS
            silent = [panel for _, panel in PANELS if panel.empty is None and not told(server, panel, began)]
            seconds = time.time() - began
            if (not silent and seconds > least) or seconds > _TOLD_SECONDS:
                break
            made.check()
            time.sleep(max(0.0, round_ends - time.monotonic()))
        yield Watched(server, made, began, time.time())


def told(server: Prometheus, panel: Panel, began: float) -> bool:
    return all(
        any(line.told for line in server.range(as_asked(query.expr), began, time.time())) for query in panel.queries
    )


@pytest.mark.parametrize(("board", "panel"), PANELS, ids=[f"{board.name}: {panel.title}" for board, panel in PANELS])
def test_a_panel_shows_something_or_says_why_not(watched: Watched, board: Board, panel: Panel) -> None:
    for query in panel.queries:
        lines = watched.ask(query.expr)
        if panel.empty is None:
            assert any(line.told for line in lines), f"{query.expr} tells nothing"


def test_every_target_is_scraped(watched: Watched) -> None:
    targets = watched.server.targets()
    assert {target["labels"]["instance"] for target in targets} == set(watched.scene.ports)
    assert [target["lastError"] for target in targets if target["health"] != "up"] == []


def test_every_rule_is_worked_out_without_an_error(watched: Watched) -> None:
    found = watched.server.rules()
    assert len(found) == len(watched.rules())
    assert [(rule["name"], rule["lastError"]) for rule in found if rule["health"] != "ok"] == []


def test_everything_that_a_rule_reads_is_there_or_declared_absent(watched: Watched) -> None:
    read = {selector.name for rule in watched.rules() for selector in selectors(rule.expr)}
    silent = {name for name in read if not any(line.told for line in watched.ask(name))}
    assert silent <= set(ABSENT), f"nobody tells {sorted(silent - set(ABSENT))}"


def test_a_recorded_series_tells_of_each_pool(watched: Watched) -> None:
    for rule in watched.rules():
        if isinstance(rule, Recording) and rule.labels:
            assert any(line.told and line.labels["pool"] == "default" for line in watched.ask(rule.name)), rule.name


def test_the_bad_records_of_the_load_are_told(watched: Watched) -> None:
    firing = {line.labels["alertname"] for line in watched.ask('ALERTS{alertstate="firing"}')}
    assert "KilnDeadLetters" in firing


def test_what_was_seen_is_drawn(watched: Watched, tmp_path: Path) -> None:
    from tests.observe.plots import draw

    folder = Path(os.environ.get("PLOTS") or tmp_path)
    for board in BOARDS:
        shown = {panel: [(query, watched.ask(query.expr)) for query in panel.queries] for panel in board.panels}
        picture = draw(board, shown, folder, watched.began)
        assert picture.stat().st_size > 10_000
