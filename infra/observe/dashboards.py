"""Dashboards as Grafana reads them, rendered from their boards. Needs the extra `infra`."""

import json
from typing import Any

from infra.observe.boards import engine, operator, tenant
from infra.observe.panel import Board, Panel, Variable
from schemas.errors import CommandError

BOARDS: tuple[Board, ...] = (operator.BOARD, tenant.BOARD, engine.BOARD)

_WIDTH, _HEIGHT = 12, 8  # of Grafana's 24 columns: two panels a row
_SOURCE = "datasource"


def dashboards() -> dict[str, dict[str, Any]]:
    """Name -> dashboard. Pools and tenants are variables, so nothing is rendered into them. Raises CommandError where
    the extra is not installed."""
    return {board.name: _dashboard(board) for board in BOARDS}


def _dashboard(board: Board) -> dict[str, Any]:
    try:
        from grafana_foundation_sdk.builders import dashboard as build
        from grafana_foundation_sdk.cog.encoder import JSONEncoder
        from grafana_foundation_sdk.models.dashboard import DashboardCursorSync
    except ImportError as error:
        raise CommandError("dashboards need the extra `infra`; install promptkiln[infra]") from error
    made = (
        build.Dashboard(board.title)
        .uid(f"kiln-{board.name}")
        .description(board.description)
        .tags(["promptkiln"])
        .refresh("30s")
        .time("now-3h", "now")
        .timezone("browser")
        .readonly()
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .with_variable(build.DatasourceVariable(_SOURCE).label("Prometheus").type("prometheus"))
    )
    for variable in board.variables:
        made = made.with_variable(_variable(variable))
    for number, panel in enumerate(board.panels, start=1):
        made = made.with_panel(_panel(panel).id(number))
    document: dict[str, Any] = json.loads(json.dumps(made.build(), cls=JSONEncoder))
    return document


def _source() -> Any:
    from grafana_foundation_sdk.models.dashboard import DataSourceRef

    return DataSourceRef(type_val="prometheus", uid=f"${{{_SOURCE}}}")


def _variable(variable: Variable) -> Any:
    from grafana_foundation_sdk.builders.dashboard import QueryVariable
    from grafana_foundation_sdk.models.dashboard import VariableRefresh, VariableSort

    return (
        QueryVariable(variable.name)
        .label(variable.name)
        .datasource(_source())
        .query(f"label_values({variable.metric}, {variable.label})")
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.ALPHABETICAL_ASC)
        .multi(True)
        .include_all(True)
        .all_value(".*")
    )


def _panel(panel: Panel) -> Any:
    from grafana_foundation_sdk.builders import common, prometheus, stat, timeseries
    from grafana_foundation_sdk.models.common import LegendDisplayMode, LegendPlacement, StackingMode

    if panel.kind == "stat":
        made: Any = stat.Panel().reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
    else:
        legend = common.VizLegendOptions().display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM)
        made = timeseries.Panel().legend(legend.show_legend(True)).fill_opacity(30 if panel.stacked else 5)
        if panel.stacked:
            made = made.stacking(common.StackingConfig().mode(StackingMode.NORMAL))
    made = (
        made.title(panel.title)
        .description(panel.description)
        .unit(panel.unit)
        .datasource(_source())
        .span(_WIDTH)
        .height(_HEIGHT)
    )
    if (nothing := panel.empty or panel.idle) is not None:
        made = made.no_value(nothing)
    for letter, query in zip("ABCDEFGH", panel.queries, strict=False):
        target = prometheus.Dataquery().expr(query.expr).legend_format(query.legend).ref_id(letter)
        made = made.with_target(target.instant() if panel.kind == "stat" else target.range())
    return made
