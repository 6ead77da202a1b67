"""What every rule must have. Whether each fires when it must is asked of Prometheus's own tool: tests/infra/rules."""

import re

import pytest

from infra.observe.alerts import alerts, rule_groups, rules
from infra.observe.metrics import SERVICES, labels_of
from infra.observe.rule import Alert, Recording
from infra.observe.settings import AlertSettings
from tests.promql import grouped, parse, selectors
from tests.unit.infra.observe.deployment import CATALOGUE, POOLS

RULES = [rule for group in rules(POOLS, CATALOGUE).values() for rule in group]
RECORDED = {rule.name for rule in RULES if isinstance(rule, Recording)}
ALERTS = alerts(rules(POOLS, CATALOGUE).values())
OF_PROMETHEUS = {"instance", "job"}  # labels of every scraped series


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_reads_what_somebody_exposes(rule: Alert | Recording) -> None:
    for selector in selectors(rule.expr):
        labels = labels_of(selector.name)
        if selector.name in RECORDED:
            labels = frozenset({"pool"})
        assert labels is not None, f"nobody exposes {selector.name}"
        assert selector.labels <= labels | OF_PROMETHEUS, f"{selector.name} has not all of {set(selector.labels)}"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_groups_by_labels_that_something_in_it_has(rule: Alert | Recording) -> None:
    there = OF_PROMETHEUS | {"by", "view"}  # that a rule makes itself
    for selector in selectors(rule.expr):
        there |= {"pool"} if selector.name in RECORDED else (labels_of(selector.name) or frozenset())
    assert grouped(rule.expr) <= there


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: f"{alert.name}-{alert.severity}")
def test_an_alert_says_what_is_wrong_with_its_value(alert: Alert) -> None:
    assert re.fullmatch(r"Kiln[A-Za-z]+", alert.name)
    assert alert.severity in {"critical", "warning"}
    assert not alert.summary.endswith(".")
    assert "$value" in alert.description
    assert alert.description.endswith((".", "{{ end }}."))


def test_groups_are_as_prometheus_wants_them() -> None:
    groups = rule_groups(POOLS, CATALOGUE, AlertSettings(runbooks="https://wiki.example/kiln/"))
    assert len({group["name"] for group in groups}) == len(groups)
    for group in groups:
        kinds = ["record" in rule for rule in group["rules"]]
        assert kinds == sorted(kinds, reverse=True), "what is recorded comes before what reads it"
        for rule in group["rules"]:
            parse(rule["expr"])
            if "alert" in rule:
                url = rule["annotations"]["runbook_url"]
                assert url == f"https://wiki.example/kiln/{rule['alert']}.md"


def test_thresholds_are_the_pools_own() -> None:
    backlog = [alert for alert in ALERTS if alert.name == "KilnBacklogAboveObjective"]
    assert [f"> {end} unless" in alert.expr for alert, end in zip(backlog, (30, 50), strict=True)] == [True, True]
    (lag, _) = (alert for alert in ALERTS if alert.name == "KilnLagWithoutConsumers")
    assert lag.for_seconds == 60 + 5 + 120
    assert "kiln.gpu.hopper" in lag.description
    budgets = [alert for alert in ALERTS if alert.name == "KilnSpendAboveBudget"]
    assert len(budgets) == 1, "a pool without a budget has nothing to exceed"


def test_restarts_are_told_of_every_service_by_what_it_exposes_from_its_first_moment() -> None:
    (restarts,) = (alert for alert in ALERTS if alert.name == "KilnProcessRestarts")
    read = {selector.name for selector in selectors(restarts.expr)}
    for service in SERVICES:
        own = [metric for metric in service.metrics if metric.name in read]
        assert own or service.title == "Card", f"nobody tells that the {service.title} is started again and again"
        assert all(not metric.labels or metric.starts for metric in own)


def test_a_wait_is_judged_by_the_next_bucket_up() -> None:
    bounds = {match for rule in RULES for match in re.findall(r'pool="ada".*le="([0-9.]+)"', rule.expr)}
    assert bounds == {"60.0"}, "50 s lies between 45 and 60"


def test_no_burn_is_asked_for_that_cannot_be() -> None:
    """Where a tenth may be late, 14.4 times as many cannot be."""
    for alert in ALERTS:
        if alert.name == "KilnWaitBudgetBurn":
            assert all(float(most) <= 0.9 for most in re.findall(r"> ([0-9.]+)", alert.expr))
