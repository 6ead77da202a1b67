"""The alert rules of a deployment, as Prometheus rule groups. Pure.

Thresholds are a pool's objectives or AlertSettings. A rule tells what a person must act upon; what mends itself within
its `for` is told to nobody.
"""

from collections.abc import Iterable
from typing import Any

from infra.observe.admission_rules import admission_rules
from infra.observe.consumer_rules import consumer_rules
from infra.observe.pool_rules import pool_rules
from infra.observe.rule import Alert, Recording
from infra.observe.settings import AlertSettings
from schemas.pools import Pools
from schemas.topics import Catalogue

Rule = Alert | Recording


def rules(pools: Pools, catalogue: Catalogue, settings: AlertSettings | None = None) -> dict[str, list[Rule]]:
    """Group -> its rules, recordings first, since a group is worked out in its order."""
    settings = settings or AlertSettings()
    groups: dict[str, Iterable[Rule]] = {
        "kiln-admission": admission_rules(settings),
        "kiln-gpu-consumers": consumer_rules(settings),
    }
    for name, pool in pools.pools.items():
        groups[f"kiln-pool-{name}"] = pool_rules(name, pool, catalogue, settings)
    return {name: sorted(group, key=lambda rule: isinstance(rule, Alert)) for name, group in groups.items()}


def alerts(groups: Iterable[Iterable[Rule]]) -> list[Alert]:
    return [rule for group in groups for rule in group if isinstance(rule, Alert)]


def rule_groups(pools: Pools, catalogue: Catalogue, settings: AlertSettings | None = None) -> list[dict[str, Any]]:
    """As a rules file and a PrometheusRule have them under `groups`."""
    settings = settings or AlertSettings()
    return [
        {"name": name, "rules": [_document(rule, settings) for rule in group]}
        for name, group in rules(pools, catalogue, settings).items()
    ]


def _document(rule: Rule, settings: AlertSettings) -> dict[str, Any]:
    return rule.document(settings.runbooks) if isinstance(rule, Alert) else rule.document()
