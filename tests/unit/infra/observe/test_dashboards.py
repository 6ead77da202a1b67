"""What every dashboard must have. That each query finds something is shown on a running pipeline: tests/observe."""

import re
from typing import Any

import pytest

from infra.observe.alerts import rules
from infra.observe.dashboards import BOARDS, dashboards
from infra.observe.metrics import labels_of
from infra.observe.panel import Board, Panel
from infra.observe.rule import Recording
from tests.promql import grouped, selectors
from tests.unit.infra.observe.deployment import CATALOGUE, POOLS

RECORDED = {rule.name for group in rules(POOLS, CATALOGUE).values() for rule in group if isinstance(rule, Recording)}
PANELS = [pytest.param(panel, id=f"{board.name}: {panel.title}") for board in BOARDS for panel in board.panels]
OF_PROMETHEUS = {"instance", "job"}
OF_ALERTS = {"alertname", "alertstate", "severity"}
UNITS = {"s", "bytes", "percentunit", "reqps", "ops", "short", "currencyUSD", "celsius", "watt"}


@pytest.mark.parametrize("panel", PANELS)
def test_a_panel_asks_for_what_somebody_exposes(panel: Panel) -> None:
    for query in panel.queries:
        there: set[str] = set(OF_PROMETHEUS)
        for selector in selectors(query.expr):
            if selector.name == "ALERTS":
                labels: set[str] = OF_ALERTS
            elif selector.name in RECORDED:
                labels = {"pool"}
            else:
                found = labels_of(selector.name)
                assert found is not None, f"nobody exposes {selector.name}"
                labels = set(found)
            assert selector.labels <= labels | OF_PROMETHEUS, selector
            there |= labels
        assert grouped(query.expr) <= there
        shown = {part.split("}}")[0] for part in query.legend.split("{{")[1:]}
        assert shown <= grouped(query.expr), "a legend shows what is grouped by, or nothing"


@pytest.mark.parametrize("panel", PANELS)
def test_a_panel_says_what_it_shows(panel: Panel) -> None:
    assert panel.unit in UNITS
    assert panel.description.endswith(".")
    assert panel.queries
    assert all(query.legend for query in panel.queries)
    assert len({query.legend for query in panel.queries}) == len(panel.queries)


@pytest.mark.parametrize("panel", PANELS)
def test_a_panel_of_a_pool_that_sleeps_says_so(panel: Panel) -> None:
    """What was divided by nothing is NaN, a curve that is not there: it is left out, and a sentence stands instead."""
    assert panel.idle or panel.empty
    for query in panel.queries:
        if any(part in query.expr for part in (" / ", "histogram_quantile", "kiln_late")):
            assert re.search(r"\) >=? 0", query.expr), query.expr


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)
def test_a_board_has_few_panels_and_asks_with_its_variables(board: Board) -> None:
    assert len(board.panels) <= 12
    assert len({panel.title for panel in board.panels}) == len(board.panels)
    asked = " ".join(query.expr for panel in board.panels for query in panel.queries)
    for variable in board.variables:
        assert f'=~"${variable.name}"' in asked, "a variable that changes nothing"
        labels = labels_of(variable.metric)
        assert labels is not None
        assert variable.label in labels | OF_PROMETHEUS


def test_grafana_gets_every_panel_and_query() -> None:
    made = dashboards()
    assert made.keys() == {board.name for board in BOARDS}
    for board in BOARDS:
        document: dict[str, Any] = made[board.name]
        assert [panel["title"] for panel in document["panels"]] == [panel.title for panel in board.panels]
        for panel, rendered in zip(board.panels, document["panels"], strict=True):
            targets = [(each["expr"], each["legendFormat"]) for each in rendered["targets"]]
            assert targets == [(query.expr, query.legend) for query in panel.queries]
            assert rendered["fieldConfig"]["defaults"]["unit"] == panel.unit
            assert rendered["fieldConfig"]["defaults"]["noValue"] == (panel.empty or panel.idle)
        names = [variable["name"] for variable in document["templating"]["list"]]
        assert names == ["datasource", *(variable.name for variable in board.variables)]
        assert len({panel["id"] for panel in document["panels"]}) == len(board.panels)
