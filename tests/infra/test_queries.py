"""A rule that Prometheus would not take, and a metric that nobody exposes, are found wherever they stand."""

import json
from copy import deepcopy

import pytest

from tests.infra.queries import checked_rules, known_queries
from tests.infra.rendered import Object, Rendered
from tests.infra.tools import ToolMissing


@pytest.fixture
def groups(pristine: Rendered) -> list[Object]:
    return deepcopy(pristine.rule_groups())


@pytest.mark.parametrize(
    ("field", "value", "wanted"),
    [("expr", "sum(rate(kiln_gpu_jobs_total[5m])", "parse"), ("for", "ten minutes", "duration"), ("expr", "", "expr")],
)
def test_a_rule_that_prometheus_refuses_is_found(field: str, value: str, wanted: str, groups: list[Object]) -> None:
    alert = next(rule for group in groups for rule in group["rules"] if "alert" in rule)
    alert[field] = value
    try:
        found = checked_rules(groups, "broken").findings
    except ToolMissing as missing:
        pytest.skip(str(missing))
    assert any(wanted in sentence for sentence in found), found


def test_two_rules_alike_are_found(groups: list[Object]) -> None:
    groups[0]["rules"].append(groups[0]["rules"][-1])
    try:
        assert checked_rules(groups, "twice").findings
    except ToolMissing as missing:
        pytest.skip(str(missing))


def test_a_metric_that_nobody_exposes_is_found_in_a_rule(groups: list[Object]) -> None:
    groups[0]["rules"][-1]["expr"] = "rate(kiln_gpu_job_total[5m]) > 0"
    (found,) = known_queries(groups, {"a.json": {}}).findings
    assert "nobody exposes kiln_gpu_job_total" in found


@pytest.mark.parametrize(
    ("before", "after", "wanted"),
    [
        ("kiln_gpu_oldest_job_seconds", "kiln_gpu_oldest_jobs_seconds", "nobody exposes kiln_gpu_oldest_jobs_seconds"),
        ("max by (pool, lane)", "max by (pool, lane", "is no PromQL"),
        ("label_values(kiln_", "label_values(kiln_no_", "nobody exposes kiln_no_"),
    ],
)
def test_a_bad_query_is_found_in_a_dashboard(before: str, after: str, wanted: str, pristine: Rendered) -> None:
    text = json.dumps(pristine.dashboards()["operator.json"])
    assert before in text
    dashboards = {"operator.json": json.loads(text.replace(before, after))}
    found = known_queries(pristine.rule_groups(), dashboards).findings
    assert found
    assert all(sentence.startswith("operator.json, ") and wanted in sentence for sentence in found), found


def test_no_dashboards_are_found(groups: list[Object]) -> None:
    assert known_queries(groups, {}).findings == ("there are no dashboards",)
